// Tests which requests are answered, by their Host and by the Origin of the page that sends them, and the
// headers of a refusal.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/errors/error.h"
#include "server/server.h"
#include "tests/server/connection.h"

namespace nibble::server {
namespace {

using test::any_port;
using test::Connection;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string answer_to(const Server& server, const std::string& line, const std::string& header) {
  const Connection connection(server.port());
  connection.send(line + " HTTP/1.1\r\nConnection: close\r\n" + header + "\r\n");
  return connection.read();
}

int status_of(const Server& server, const std::string& header, const std::string& line = "GET /live") {
  return std::stoi(answer_to(server, line, header).substr(9, 3));
}

int status_for_host(const Server& server, const std::string& host) {
  return status_of(server, "Host: " + host + "\r\n");
}

TEST(Access, OnLoopbackWithoutAKeyOnlyKnownHostsAreAnswered) {
  ServerOptions options = any_port();
  options.allowed_hosts = {"llm.example"};
  const Server server(options);
  for (const char* host : {"localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:65535", "[::1]", "[::1]:80",
                           "llm.example", "LLM.Example:443"})
    EXPECT_EQ(status_for_host(server, host), 200) << host;
  for (const char* host : {"evil.example", "localhost.evil.example", "evil.llm.example", "127.0.0.2",
                           "0.0.0.0", "localhost.", "[::2]"})
    EXPECT_EQ(status_for_host(server, host), 403) << host;
  EXPECT_THAT(
      answer_to(server, "GET /live", "Host: evil.example:8\r\n"),
      HasSubstr("the Host 'evil.example:8' is not one of this server's names (localhost, 127.0.0.1, [::1], "
                "llm.example): use one of them, or start the server with --allowed-host evil.example"));
}

TEST(Access, TheHostOfAnAbsoluteTargetCounts) {
  const Server server(any_port());
  EXPECT_EQ(status_of(server, "Host: evil.example\r\n", "GET http://localhost/live"), 200);
  EXPECT_EQ(status_of(server, "Host: localhost\r\n", "GET http://evil.example/live"), 403);
}

TEST(Access, WithAKeyAnyHostIsAnsweredUnlessHostsAreNamed) {
  ServerOptions options = any_port();
  options.api_keys.add("k", "--api-key");
  EXPECT_EQ(status_for_host(Server(options), "any.example"), 200);
  options.allowed_hosts = {"llm.example"};
  const Server named(options);
  EXPECT_EQ(status_for_host(named, "any.example"), 403);
  EXPECT_EQ(status_for_host(named, "llm.example"), 200);
}

TEST(Access, OnAllAddressesAnyHostIsAnswered) {
  ServerOptions options = any_port();
  options.address.host = "0.0.0.0";
  EXPECT_EQ(status_for_host(Server(options), "any.example"), 200);
  options.address.host = "127.0.0.1";
  options.allowed_hosts = {"*"};
  EXPECT_EQ(status_for_host(Server(options), "any.example"), 200);
}

TEST(Access, AnAllowedHostThatIsNoHostIsRefusedAtTheStart) {
  for (const char* host : {"", "a:80", "http://a", "::1", "a b"}) {
    ServerOptions options = any_port();
    options.allowed_hosts = {host};
    EXPECT_THROW(Server{options}, InputError) << host;
  }
}

TEST(Access, PagesOfOtherOriginsAreRefusedWhateverTheyAsk) {
  ServerOptions options = any_port();
  options.cors_origins = {"https://app.example", "null-ish"};
  const Server server(options);
  const std::string host = "Host: localhost:8080\r\n";
  for (const char* origin : {"http://evil.example", "https://app.example.evil.example", "http://app.example",
                             "null", "", "file://", "http://localhost:8081", "http://localhost",
                             "http://127.0.0.1:80", "app://localhost:8080", "http://localhost:8080/"})
    for (const char* line : {"GET /live", "HEAD /live", "POST /v1/chat/completions", "DELETE /v1/responses/a",
                             "OPTIONS /v1/models", "PUT /live", "GET /nowhere"})
      EXPECT_EQ(status_of(server, host + "Origin: " + origin + "\r\n", line), 403) << origin << " " << line;
  for (const char* type : {"text/plain", "application/json", "application/x-www-form-urlencoded"})
    EXPECT_EQ(
        status_of(server,
                  host + "Origin: http://evil.example\r\nContent-Length: 0\r\nContent-Type: " + type + "\r\n",
                  "POST /v1/completions"),
        403);
  EXPECT_EQ(status_of(server, host + "Origin: https://app.example\r\nOrigin: http://evil.example\r\n"), 403);
  for (const char* origin : {"http://localhost:8080", "http://127.0.0.1:8080", "http://[::1]:8080",
                             "https://app.example", "https://localhost:8080"})
    EXPECT_EQ(status_of(server, host + "Origin: " + origin + "\r\n"), 200) << origin;
  EXPECT_THAT(answer_to(server, "GET /live", host + "Origin: http://evil.example\r\n"),
              HasSubstr("pages of the Origin 'http://evil.example' may not call this server: to allow them, "
                        "start it with --cors-origin http://evil.example"));
}

TEST(Access, APageBehindAProxyWithTlsIsTheServersOwn) {
  ServerOptions options = any_port();
  options.allowed_hosts = {"llm.example"};
  const Server server(options);
  EXPECT_EQ(status_of(server, "Host: llm.example\r\nOrigin: https://llm.example\r\n"), 200);
  EXPECT_EQ(status_of(server, "Host: llm.example:443\r\nOrigin: https://llm.example\r\n"), 200);
  EXPECT_EQ(status_of(server, "Host: llm.example\r\nOrigin: https://llm.example:444\r\n"), 403);
}

TEST(Access, APageOfTheInternetMayAskALocalServerIfItsOriginIsNamed) {
  ServerOptions options = any_port();
  options.cors_origins = {"https://app.example"};
  const Server server(options);
  const std::string preflight =
      "Host: localhost\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Private-Network: "
      "true\r\n";
  const std::string allowed =
      answer_to(server, "OPTIONS /v1/models", preflight + "Origin: https://app.example\r\n");
  EXPECT_THAT(allowed, StartsWith("HTTP/1.1 204 "));
  EXPECT_THAT(allowed, HasSubstr("\r\nAccess-Control-Allow-Private-Network: true\r\n"));
  EXPECT_THAT(
      answer_to(server, "OPTIONS /v1/models",
                "Host: localhost\r\nAccess-Control-Request-Method: POST\r\nOrigin: https://app.example\r\n"),
      Not(HasSubstr("Private-Network")));
  const std::string refused =
      answer_to(server, "OPTIONS /v1/models", preflight + "Origin: https://a.example\r\n");
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(refused, Not(HasSubstr("Access-Control")));
}

TEST(Methods, ARefusalNamesAllThatThePathTakes) {
  const Server server(any_port());
  const auto allow = [&](const char* line) {
    const std::string answer = answer_to(server, line, "Host: localhost\r\n");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 405 ")) << line;
    const size_t begin = answer.find("\r\nAllow: ") + 9;
    return answer.substr(begin, answer.find("\r\n", begin) - begin);
  };
  EXPECT_EQ(allow("GET /v1/chat/completions"), "POST");
  EXPECT_EQ(allow("HEAD /chat/completions"), "POST");
  EXPECT_EQ(allow("POST /health"), "GET, HEAD");
  EXPECT_EQ(allow("PATCH /v1/responses/resp_1"), "GET, HEAD, DELETE");
}

TEST(Methods, OptionsNameThemToo) {
  const Server server(any_port());
  const std::string answer = answer_to(server, "OPTIONS /v1/responses/resp_1", "Host: localhost\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 204 "));
  EXPECT_THAT(answer, HasSubstr("\r\nAllow: GET, HEAD, DELETE\r\n"));
  EXPECT_THAT(answer_to(server, "OPTIONS *", "Host: localhost\r\n"),
              HasSubstr("\r\nAllow: GET, HEAD, POST, DELETE\r\n"));
  EXPECT_THAT(answer_to(server, "OPTIONS /nowhere", "Host: localhost\r\n"), StartsWith("HTTP/1.1 404 "));
}

TEST(Methods, AWebSocketIsDeclinedWithWhatIsSpokenHere) {
  const Server server(any_port());
  const std::string answer =
      answer_to(server, "GET /v1/responses", "Host: localhost\r\nUpgrade: websocket\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 426 "));
  EXPECT_THAT(answer, HasSubstr("\r\nUpgrade: HTTP/1.1\r\nConnection: Upgrade\r\n"));
}

TEST(Encodings, ACompressedBodyIsRefusedByTheNameOfItsEncoding) {
  const Server server(any_port());
  for (const char* encoding : {"gzip", "br", "zstd", "deflate", "identity, gzip", "x"}) {
    const std::string answer = answer_to(
        server, "POST /v1/completions", fmt::format("Host: localhost\r\nContent-Encoding: {}\r\n", encoding));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 415 "));
    EXPECT_THAT(answer, HasSubstr(fmt::format("Content-Encoding '{}' is not supported", encoding)));
    EXPECT_THAT(answer, HasSubstr("\r\nAccept-Encoding: identity\r\n"));
  }
  EXPECT_EQ(status_of(server, "Host: localhost\r\nContent-Encoding: Identity\r\n"), 200);
}

}  // namespace
}  // namespace nibble::server
