#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/bench_serve/endpoint.h"
#include "tests/error_of.h"

namespace nibble::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Endpoint, AUrlIsReadWithAndWithoutWhatMayBeLeftOut) {
  for (const char* url : {"http://127.0.0.1:8080", "http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1",
                          "http://127.0.0.1:8080/v1/"})
    EXPECT_EQ(read_endpoint(url).url(), "http://127.0.0.1:8080/v1") << url;
  EXPECT_EQ(read_endpoint("http://a.b/llm").url(), "http://a.b:80/llm/v1");
  const Endpoint v6 = read_endpoint("http://[::1]:80");
  EXPECT_EQ(v6.host, "::1");
  EXPECT_EQ(v6.url(), "http://[::1]:80/v1");
}

TEST(Endpoint, WhatIsNoUrlIsRefusedWithOneThatIs) {
  for (const char* url : {"", "127.0.0.1:8080", "https://a", "http://", "http://:80", "http://a:x",
                          "http://a:0", "http://a:65536", "http://a b", "ftp://a"})
    EXPECT_THAT(error_of([&] { read_endpoint(url); }),
                AllOf(HasSubstr(std::string("'") + url + "'"), HasSubstr("http://127.0.0.1:8080")))
        << url;
}

}  // namespace
}  // namespace nibble::cli
