// Tests how the page is served. tests/e2e/test_page.py tests its behaviour in a browser.
#include "server/page/page_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/errors/error.h"
#include "server/http/gzip.h"
#include "server/page/content_policy.h"
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
  EXPECT_THAT(page, AllOf(StartsWith("<!doctype html>"), HasSubstr("src=\"../page/chat/chat.js\""),
                          HasSubstr("href=\"../page/chat/chat.css\""), HasSubstr("href=\"../status\"")));
  EXPECT_THAT(page, Not(HasSubstr("=\"page/")));
}

TEST(Page, EveryFileComesWithItsTypeAndAPolicyThatLetsInNothingElse) {
  const Server server(any_port());
  ASSERT_GT(page_files().size(), 10u);
  for (const PageFile& file : page_files()) {
    const std::string answer = page_answer(server, fmt::format("GET /page/{}", file.name));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
    EXPECT_EQ(value_of(answer, "Content-Type"), file.type);
    if (file.name != "tools/sandbox.html") {
      EXPECT_THAT(value_of(answer, "Content-Security-Policy"),
                  AllOf(StartsWith("default-src 'none'; script-src 'self'; style-src 'self'; "),
                        HasSubstr("frame-ancestors 'none'"), HasSubstr("require-trusted-types-for 'script'"),
                        Not(HasSubstr("unsafe")), Not(HasSubstr("*"))));
    }
    EXPECT_EQ(value_of(answer, "X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(value_of(answer, "Referrer-Policy"), "no-referrer");
    EXPECT_EQ(value_of(answer, "Cache-Control"), "no-cache");
    EXPECT_EQ(body_of(answer), file.text);
    const std::string head = page_answer(server, fmt::format("HEAD /page/{}", file.name));
    EXPECT_EQ(value_of(head, "Content-Length"), fmt::to_string(file.text.size()));
    EXPECT_EQ(body_of(head), "");
  }
}

TEST(Page, OnlyTheSandboxMayEvaluateTextAndItMayLoadNothing) {
  const Server server(any_port());
  EXPECT_EQ(
      value_of(page_answer(server, "GET /page/tools/sandbox.html"), "Content-Security-Policy"),
      "sandbox allow-scripts; default-src 'none'; script-src 'nonce-frame' 'unsafe-eval'; worker-src blob:; "
      "base-uri 'none'; form-action 'none'; frame-ancestors 'self'");
  // The script is inline. The sandbox could not load it from the server, because its origin is opaque and the
  // server refuses requests from an opaque origin.
  EXPECT_THAT(body_of(page_answer(server, "GET /page/tools/sandbox.html")),
              AllOf(HasSubstr("new Worker("), Not(HasSubstr("src="))));
}

std::string directive(const std::string& policy, const std::string& name) {
  const size_t begin = policy.find(name + " ");
  return begin == std::string::npos ? "" : policy.substr(begin, policy.find(';', begin) - begin);
}

TEST(Page, OnlyTheChatMayCallTheNamedMcpServersAndEmbedTheSandbox) {
  ServerOptions options = any_port();
  options.mcp_origins = {"https://tools.example", "http://127.0.0.1:3000"};
  const Server server(any_port()), calling(options);
  const auto policy_of = [](const Server& asked, const std::string& path) {
    return value_of(page_answer(asked, "GET " + path, kAsBrowser), "Content-Security-Policy");
  };
  for (const char* path : {"/", "/c/0011aa", "/page/chat/chat.html"}) {
    EXPECT_EQ(directive(policy_of(server, path), "connect-src"), "connect-src 'self'") << path;
    EXPECT_EQ(directive(policy_of(calling, path), "connect-src"),
              "connect-src 'self' https://tools.example http://127.0.0.1:3000")
        << path;
    EXPECT_EQ(directive(policy_of(calling, path), "frame-src"), "frame-src 'self'") << path;
    EXPECT_THAT(policy_of(calling, path), HasSubstr("frame-ancestors 'none'")) << path;
  }
  for (const char* path :
       {"/status", "/page/install/install.html", "/page/chat/chat.js", "/page/worker.js"}) {
    EXPECT_EQ(directive(policy_of(calling, path), "connect-src"), "connect-src 'self'") << path;
    EXPECT_EQ(directive(policy_of(calling, path), "frame-src"), "") << path;
  }
}

TEST(Page, IsSentAgainAfterARestartWithOtherMcpServers) {
  ServerOptions options = any_port();
  options.mcp_origins = {"https://tools.example"};
  const Server server(any_port()), calling(options);
  const auto tag_of = [](const Server& asked) {
    return value_of(page_answer(asked, "GET /", kAsBrowser), "ETag");
  };
  const std::string before = tag_of(server), after = tag_of(calling);
  EXPECT_THAT(page_answer(calling, "GET /", kAsBrowser + "If-None-Match: " + before + "\r\n"),
              StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(page_answer(calling, "GET /", kAsBrowser + "If-None-Match: " + after + "\r\n"),
              StartsWith("HTTP/1.1 304 "));
  // worker.js contains the hash of each file, and accepts any ETag that begins with that hash. The MCP
  // servers may therefore only append to the ETag.
  EXPECT_THAT(after, StartsWith(before.substr(0, before.size() - 1)));
}

TEST(Page, OriginsThatCouldChangeThePolicyAreRefused) {
  for (const char* origin :
       {"https://tools.example", "http://127.0.0.1:3000", "http://localhost:65535", "https://a-b.c"})
    EXPECT_NO_THROW(check_mcp_origin(origin)) << origin;
  for (const char* origin : {"",
                             "*",
                             "https:",
                             "https://",
                             "https://*",
                             "https://*.example",
                             "tools.example",
                             "ftp://tools.example",
                             "https://tools.example/",
                             "https://tools.example/mcp",
                             "https://tools.example:",
                             "https://tools.example:0",
                             "https://tools.example:65536",
                             "https://tools.example:1x",
                             "https://tools.example:+1",
                             "https://Tools.example",
                             "https://tools.example; script-src *",
                             "https://a.example https://b.example",
                             "https://a.example,b",
                             "https://a'b",
                             "https://[::1]:3000",
                             "https://u:p@tools.example",
                             "'unsafe-inline'",
                             "https://a.example\r\nX: y"})
    EXPECT_THROW(check_mcp_origin(origin), InputError) << origin;
}

TEST(Page, OnlyThePageThatInstallsMayMakeATrustedTypesPolicy) {
  const Server server(any_port());
  for (const PageFile& file : page_files()) {
    if (file.name == "tools/sandbox.html") continue;  // the frame's own policy, above
    EXPECT_THAT(
        value_of(page_answer(server, fmt::format("GET /page/{}", file.name)), "Content-Security-Policy"),
        EndsWith(file.name == "install/install.html" ? "; trusted-types nibble-install"
                                                     : "; trusted-types 'none'"));
  }
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
  const std::string tag = value_of(page_answer(server, "GET /page/chat/chat.js"), "ETag");
  const std::string same = page_answer(server, "GET /page/chat/chat.js", "If-None-Match: " + tag + "\r\n");
  EXPECT_THAT(same, StartsWith("HTTP/1.1 304 "));
  EXPECT_THAT(same, AllOf(Not(HasSubstr("Content-Length")), EndsWith("\r\n\r\n")));
  EXPECT_EQ(value_of(same, "ETag"), tag);
  EXPECT_THAT(page_answer(server, "GET /page/chat/chat.js", "If-None-Match: W/\"other\"\r\n"),
              StartsWith("HTTP/1.1 200 "));
  EXPECT_NE(value_of(page_answer(server, "GET /page/chat/turn.js"), "ETag"), tag);
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
  for (const char* path : {"/", "/c/0011aa", "/status", "/page/chat/chat.js"})
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
  for (const char* path : {"/c/0011aa", "/status", "/page/chat/chat.js"})
    EXPECT_THAT(page_answer(server, std::string("GET ") + path, kAsBrowser),
                AllOf(StartsWith("HTTP/1.1 404 "), HasSubstr("--no-page")));
}

TEST(Page, HasNoOtherFiles) {
  const Server server(any_port());
  for (const char* path : {"/page/", "/page/other.js", "/page/..%2Fchat%2Fchat.js", "/page/../status"})
    EXPECT_THAT(page_answer(server, std::string("GET ") + path), StartsWith("HTTP/1.1 404 ")) << path;
}

}  // namespace
}  // namespace nibble::server
