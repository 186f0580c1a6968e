// Tests which request headers are read, and which are refused because a proxy could read them differently.
#include "server/http/request_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/http/http_error.h"

namespace nibble::server {
namespace {

RequestHead head_of(const std::string& bytes) {
  RequestHead head;
  EXPECT_EQ(head_length(bytes, 0), bytes.size()) << bytes;
  read_head(bytes, head);
  return head;
}

// Returns 0 if the request is read, else the status of the refusal.
int refusal_of(const std::string& bytes) {
  const std::optional<size_t> length = head_length(bytes, 0);
  if (!length) return -1;  // the header is not complete
  RequestHead head;
  try {
    read_head(std::string_view(bytes).substr(0, *length), head);
  } catch (const HttpError& error) {
    return error.status;
  }
  return 0;
}

int refusal_of_lines(const std::string& lines) {
  return refusal_of("POST / HTTP/1.1\r\nHost: a\r\n" + lines + "\r\n");
}

TEST(RequestHead, HasMethodTargetVersionAndFields) {
  const RequestHead head =
      head_of("POST /a?b=c HTTP/1.1\r\nHost: a:80\r\nX-Y:\t z z \r\nContent-Length: 007\r\n\r\n");
  EXPECT_EQ(to_std(head.request.method_string()), "POST");
  EXPECT_EQ(to_std(head.request.target()), "/a?b=c");
  EXPECT_EQ(head.request.version(), 11u);
  EXPECT_EQ(to_std(head.request["x-y"]), "z z");
  EXPECT_EQ(head.content_length, 7u);
  EXPECT_TRUE(head.keep_alive && head.has_body() && !head.is_chunked);
}

TEST(RequestHead, IsCompleteAtItsEmptyLineAndNotBefore) {
  const std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  for (size_t length = 0; length < bytes.size(); ++length)
    for (size_t num_scanned = 0; num_scanned <= length; ++num_scanned)
      EXPECT_FALSE(head_length(bytes.substr(0, length), num_scanned));
  EXPECT_EQ(head_length(bytes + "GET", 0), bytes.size());
  EXPECT_EQ(head_length(bytes, bytes.size() - 1), bytes.size());
}

TEST(RequestHead, IsRefusedAtTheFirstByteThatNoHeaderHas) {
  EXPECT_EQ(head_length("\x16\x03\x01", 0), 1u);  // TLS
  EXPECT_EQ(head_length("GET / HTTP/1.1\nHost", 0), 15u);
  EXPECT_EQ(head_length("GET / HTTP/1.1\rHost", 0), 16u);
  EXPECT_EQ(head_length(std::string("GET /\0", 6), 0), 6u);
}

TEST(RequestHead, ABodyHasOneLengthBeyondDoubt) {
  EXPECT_EQ(refusal_of_lines("Content-Length: 5\r\n"), 0);
  EXPECT_EQ(refusal_of_lines("Transfer-Encoding: Chunked\r\n"), 0);
  for (const char* length : {"", "+5", "-5", "0x5", "5 5", "5,5", "5, 5", "5.0", "5e0", "\xC2\xB2"})
    EXPECT_EQ(refusal_of_lines(std::string("Content-Length: ") + length + "\r\n"), 400) << length;
  EXPECT_EQ(refusal_of_lines("Content-Length: 5\r\nContent-Length: 5\r\n"), 400);
  EXPECT_EQ(refusal_of_lines("Content-Length: 5\r\ncontent-length: 6\r\n"), 400);
  EXPECT_EQ(refusal_of_lines("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(refusal_of_lines("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400);
  EXPECT_EQ(
      head_of("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n").content_length,
      UINT64_MAX);
}

TEST(RequestHead, ChunksAreTheOnlyTransferCoding) {
  for (const char* coding : {"", "xchunked", "chunked2", "identity", "gzip", "chunked, chunked",
                             "chunked, gzip", "chunked, identity", "identity, chunked", "chunked;q=1",
                             "\"chunked\"", ",chunked", "chunked,", "chun ked", "\x0b chunked"})
    EXPECT_EQ(refusal_of_lines(std::string("Transfer-Encoding: ") + coding + "\r\n"), 400) << coding;
  for (const char* coding : {"gzip, chunked", "GZIP,chunked", "deflate, gzip, chunked", "compress , chunked"})
    EXPECT_EQ(refusal_of_lines(std::string("Transfer-Encoding: ") + coding + "\r\n"), 501) << coding;
  EXPECT_EQ(refusal_of_lines("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(refusal_of_lines("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"), 400);
  EXPECT_EQ(refusal_of_lines("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(refusal_of_lines("Transfer-Encoding : chunked\r\n"), 400);
  EXPECT_EQ(refusal_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
}

TEST(RequestHead, ALineIsAFieldOnItsOwn) {
  for (const char* line : {"a : b", "a\t: b", " a: b", "\ta: b", ": b", "a", "a(b): c", "a[]: b", "a\x80: b"})
    EXPECT_EQ(refusal_of_lines(line + std::string("\r\n")), 400) << line;
  EXPECT_EQ(refusal_of_lines("a: b\r\n c\r\n"), 400);  // a folded line
  EXPECT_EQ(refusal_of_lines("a: b\r\n\tc\r\n"), 400);
  EXPECT_EQ(refusal_of_lines("a: b\nc: d\r\n"), 400);
  EXPECT_EQ(refusal_of_lines("a: b\rc: d\r\n"), 400);
  EXPECT_EQ(refusal_of_lines(std::string("a: b\0c\r\n", 8)), 400);
  EXPECT_EQ(refusal_of_lines("a: b\x7F\r\n"), 400);
  EXPECT_EQ(refusal_of_lines("a: b\x1B\r\n"), 400);
  EXPECT_EQ(refusal_of_lines("a:\r\nb:\t\r\nc: \xC3\xA9\r\n"), 0);
}

TEST(RequestHead, TheFirstLineHasAMethodATargetAndAKnownVersion) {
  const auto refusal = [](const std::string& line) { return refusal_of(line + "\r\nHost: a\r\n\r\n"); };
  for (const char* line : {"GET /", "GET  / HTTP/1.1", "GET / HTTP/1.1 ", "GET /a b HTTP/1.1",
                           " GET / HTTP/1.1", "G(T / HTTP/1.1", "GET / HTTP/1", "GET / http/1.1",
                           "GET / HTTP/1.1x", "GET / HTTP/11", "GET\t/ HTTP/1.1", "/ HTTP/1.1", "hello"})
    EXPECT_EQ(refusal(line), 400) << line;
  for (const char* line : {"GET / HTTP/2.0", "PRI * HTTP/2.0", "GET / HTTP/0.9"})
    EXPECT_THAT(refusal(line), testing::AnyOf(400, 505)) << line;
  EXPECT_EQ(refusal("GET / HTTP/3.0"), 505);
  EXPECT_EQ(refusal("M-SEARCH / HTTP/1.2"), 0);
}

TEST(RequestHead, TheTargetIsAPath) {
  const auto refusal = [](const std::string& target) {
    return refusal_of("GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n");
  };
  for (const char* target : {"",
                             "a",
                             "*",
                             "a:80",
                             "?a",
                             "#",
                             "/a#b",
                             "/%",
                             "/%2",
                             "/%zz",
                             "/\xC3\xA9",
                             "/\"",
                             "/<a>",
                             "/a\\b",
                             "ftp://a/",
                             "http:/a",
                             "http://",
                             "http:///a",
                             "http://u@a/",
                             "http://a b/",
                             "http://a:x/",
                             "http://a:99999/",
                             "HTTP://[::/"})
    EXPECT_EQ(refusal(target), 400) << target;
  for (const char* target : {"/", "//a", "/a?b=c|d&e=[f]", "/%41", "/a:b@c;d,e!$'()*+="})
    EXPECT_EQ(refusal(target), 0) << target;
  EXPECT_EQ(to_std(head_of("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").request.target()), "*");
}

TEST(RequestHead, AnAbsoluteTargetNamesTheHost) {
  const struct {
    const char *target, *path, *host;
  } cases[] = {{"http://b:8/c?d", "/c?d", "b:8"},
               {"HTTPS://B", "/", "B"},
               {"http://b?c", "/?c", "b"},
               {"http://[::1]:8/", "/", "[::1]:8"}};
  for (const auto& one : cases) {
    const RequestHead head = head_of(std::string("GET ") + one.target + " HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_EQ(to_std(head.request.target()), one.path);
    EXPECT_EQ(to_std(head.request["Host"]), one.host);
    EXPECT_EQ(head.request.count("Host"), 1u);
  }
  EXPECT_EQ(refusal_of("GET http://b/ HTTP/1.1\r\n\r\n"), 400);
}

TEST(RequestHead, ThereIsOneValidHost) {
  const auto refusal = [](const std::string& lines, const char* version = "1.1") {
    return refusal_of(std::string("GET / HTTP/") + version + "\r\n" + lines + "\r\n");
  };
  EXPECT_EQ(refusal(""), 400);
  EXPECT_EQ(refusal("", "1.0"), 0);
  EXPECT_EQ(refusal("Host: a\r\nHost: a\r\n"), 400);
  EXPECT_EQ(refusal("Host: a\r\nhost: b\r\n", "1.0"), 400);
  for (const char* host : {"", "a b", "a,b", "a/b", "http://a", "u@a", "a:b", "a:65536", "a:1:2", ":80",
                           "[::1", "::1", "[a]", "[::1]x", "a%", "a%4", "a\\b", "\xC3\xA9", "a?b"})
    EXPECT_EQ(refusal(std::string("Host: ") + host + "\r\n"), 400) << host;
  for (const char* host : {"a", "a.b-c_d", "127.0.0.1:8000", "[::1]", "[::1]:8000", "a:", "%2Ftmp%2Fa.sock"})
    EXPECT_EQ(refusal(std::string("Host: ") + host + "\r\n"), 0) << host;
}

TEST(RequestHead, ConnectionSaysWhetherItGoesOn) {
  const auto goes_on = [](const char* version, const char* lines) {
    return head_of(std::string("GET / HTTP/") + version + "\r\nHost: a\r\n" + lines + "\r\n").keep_alive;
  };
  EXPECT_TRUE(goes_on("1.1", ""));
  EXPECT_FALSE(goes_on("1.0", ""));
  EXPECT_TRUE(goes_on("1.0", "Connection: Keep-Alive\r\n"));
  EXPECT_FALSE(goes_on("1.1", "Connection: Close\r\n"));
  EXPECT_FALSE(goes_on("1.1", "Connection: keep-alive\r\nConnection: Upgrade, close\r\n"));
}

}  // namespace
}  // namespace nibble::server
