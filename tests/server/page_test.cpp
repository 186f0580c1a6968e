// Tests how the page is served. tests/e2e/test_page.py tests its behaviour in a browser.
#include "server/page/page_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/http/gzip.h"
#include "server/server.h"
#include "tests/server/connection.h"

namespace nibble::server {
namespace {

using test::any_port;
using test::Connection;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string page_answer(const Server& server, const std::string& line, const std::string& header = "") {
  const Connection connection(server.port());
  connection.send(line + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + header + "\r\n");
  return connection.read();
}

std::string value_of(const std::string& answer, const std::string& name) {
  const size_t begin = answer.find("\r\n" + name + ": ") + name.size() + 4;
  return answer.substr(begin, answer.find("\r\n", begin) - begin);
}

std::string body_of(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }

const std::string kAsBrowser{"Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n"};

TEST(Page, IsShownToBrowsersAndAWordToPrograms) {
  const Server server(any_port());
  const std::string shown = page_answer(server, "GET /", kAsBrowser);
  EXPECT_THAT(shown, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(shown, HasSubstr("\r\nContent-Type: text/html; charset=utf-8\r\n"));
  EXPECT_THAT(body_of(shown), StartsWith("<!doctype html>"));
  for (const char* accept : {"", "Accept: */*\r\n"}) {
    const std::string told = page_answer(server, "GET /", accept);
    EXPECT_THAT(told, StartsWith("HTTP/1.1 200 "));
    EXPECT_THAT(told, HasSubstr("\r\nVary: Accept, User-Agent\r\n"));
    EXPECT_EQ(body_of(told), "nibble is running\n");
  }
  EXPECT_EQ(body_of(page_answer(server, "GET /", "Accept: application/json\r\n")),
            "{\"name\":\"nibble\",\"status\":\"running\"}\n");
  for (const char* agent :
       {"ollama/0.13.4 (amd64 linux) Go/go1.24", "ollama-python/0.6.0 (x86_64)", "Ollama"})
    EXPECT_EQ(body_of(page_answer(server, "GET /", std::string("User-Agent: ") + agent + "\r\n")),
              "Ollama is running");
  for (const char* agent : {"oll", "curl/8.0", "not-ollama"})
    EXPECT_EQ(body_of(page_answer(server, "GET /", std::string("User-Agent: ") + agent + "\r\n")),
              "nibble is running\n");
  EXPECT_EQ(body_of(page_answer(server, "HEAD /")), "");
}

TEST(Page, IsAlsoAtTheAddressesOfConversations) {
  const Server server(any_port());
  const std::string page = body_of(page_answer(server, "GET /c/0011aa", kAsBrowser));
  EXPECT_THAT(page, AllOf(StartsWith("<!doctype html>"), HasSubstr("src=\"../page/chat.js\""),
                          HasSubstr("href=\"../page/chat.css\""), HasSubstr("href=\"../status\"")));
  EXPECT_THAT(page, Not(HasSubstr("=\"page/")));
}

TEST(Page, EveryFileComesWithItsTypeAndAPolicyThatLetsInNothingElse) {
  const Server server(any_port());
  ASSERT_GT(page_files().size(), 10u);
  for (const PageFile& file : page_files()) {
    const std::string answer = page_answer(server, fmt::format("GET /page/{}", file.name));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
    EXPECT_EQ(value_of(answer, "Content-Type"), file.type);
    EXPECT_THAT(value_of(answer, "Content-Security-Policy"),
                AllOf(StartsWith("default-src 'none'; script-src 'self'; style-src 'self'; "),
                      HasSubstr("frame-ancestors 'none'"), HasSubstr("require-trusted-types-for 'script'"),
                      Not(HasSubstr("unsafe")), Not(HasSubstr("*"))));
    EXPECT_EQ(value_of(answer, "X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(value_of(answer, "Referrer-Policy"), "no-referrer");
    EXPECT_EQ(value_of(answer, "Cache-Control"), "no-cache");
    EXPECT_EQ(body_of(answer), file.text);
    const std::string head = page_answer(server, fmt::format("HEAD /page/{}", file.name));
    EXPECT_EQ(value_of(head, "Content-Length"), fmt::to_string(file.text.size()));
    EXPECT_EQ(body_of(head), "");
  }
}

TEST(Page, OnlyThePageThatInstallsMayMakeATrustedTypesPolicy) {
  const Server server(any_port());
  for (const PageFile& file : page_files())
    EXPECT_THAT(
        value_of(page_answer(server, fmt::format("GET /page/{}", file.name)), "Content-Security-Policy"),
        EndsWith(file.name == "install.html" ? "; trusted-types nibble-install" : "; trusted-types 'none'"));
  for (const char* path : {"/", "/c/0011aa", "/status"})
    EXPECT_THAT(
        value_of(page_answer(server, std::string("GET ") + path, kAsBrowser), "Content-Security-Policy"),
        EndsWith("; trusted-types 'none'"));
}

TEST(Page, TheServiceWorkerKnowsTheHashesOfAllOtherFiles) {
  const Server server(any_port());
  const std::string answer = page_answer(server, "GET /page/worker.js");
  EXPECT_EQ(value_of(answer, "Service-Worker-Allowed"), "..");
  for (const PageFile& file : page_files()) {
    if (file.name == "worker.js") continue;
    EXPECT_THAT(body_of(answer), HasSubstr(fmt::format("\"{}\":\"{}\"", file.name, file.hash)));
  }
}

TEST(Page, IsSentAgainOnlyWhereItHasChanged) {
  const Server server(any_port());
  const std::string tag = value_of(page_answer(server, "GET /page/chat.js"), "ETag");
  const std::string same = page_answer(server, "GET /page/chat.js", "If-None-Match: " + tag + "\r\n");
  EXPECT_THAT(same, StartsWith("HTTP/1.1 304 "));
  EXPECT_THAT(same, AllOf(Not(HasSubstr("Content-Length")), EndsWith("\r\n\r\n")));
  EXPECT_EQ(value_of(same, "ETag"), tag);
  EXPECT_THAT(page_answer(server, "GET /page/chat.js", "If-None-Match: W/\"other\"\r\n"),
              StartsWith("HTTP/1.1 200 "));
  EXPECT_NE(value_of(page_answer(server, "GET /page/turn.js"), "ETag"), tag);
}

TEST(Page, IsCompressedForWhoAcceptsThat) {
  const Server server(any_port());
  const std::string answer = page_answer(server, "GET /status", "Accept-Encoding: gzip, br\r\n");
  EXPECT_EQ(value_of(answer, "Content-Encoding"), "gzip");
  const std::string body = body_of(answer), plain = body_of(page_answer(server, "GET /status"));
  EXPECT_THAT(plain, StartsWith("<!doctype html>"));
  EXPECT_LT(body.size(), plain.size() / 2);
  // By the format of gzip, the last four bytes are the length of the text.
  EXPECT_EQ(static_cast<unsigned char>(body[body.size() - 4]) +
                256u * static_cast<unsigned char>(body[body.size() - 3]),
            plain.size());
}

TEST(Page, WeighsLessThan400KilobytesCompressed) {
  size_t num_bytes = 0;
  for (const PageFile& file : page_files()) num_bytes += gzipped(file.text).size();
  EXPECT_LT(num_bytes, 400'000u);
}

TEST(Page, NeedsNoKeyAndWhatItShowsDoes) {
  ServerOptions options = any_port();
  options.api_keys.add("sesame", "the test");
  const Server server(options);
  for (const char* path : {"/", "/c/0011aa", "/status", "/page/chat.js"})
    EXPECT_THAT(page_answer(server, std::string("GET ") + path, kAsBrowser), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(page_answer(server, "GET /status.json"), StartsWith("HTTP/1.1 401 "));
  const std::string told = page_answer(server, "GET /status.json", "Authorization: Bearer sesame\r\n");
  EXPECT_THAT(told, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(told, EndsWith("{\"model\":\"toy\",\"version\":\"\",\"state\":\"loading\"}\n"));
}

TEST(Page, CanBeLeftOut) {
  ServerOptions options = any_port();
  options.has_page = false;
  const Server server(options);
  EXPECT_EQ(body_of(page_answer(server, "GET /", kAsBrowser)), "nibble is running\n");
  for (const char* path : {"/c/0011aa", "/status", "/page/chat.js"})
    EXPECT_THAT(page_answer(server, std::string("GET ") + path, kAsBrowser),
                AllOf(StartsWith("HTTP/1.1 404 "), HasSubstr("--no-page")));
}

TEST(Page, HasNoOtherFiles) {
  const Server server(any_port());
  for (const char* path : {"/page/", "/page/other.js", "/page/..%2Fchat.js", "/page/../status"})
    EXPECT_THAT(page_answer(server, std::string("GET ") + path), StartsWith("HTTP/1.1 404 ")) << path;
}

}  // namespace
}  // namespace nibble::server
