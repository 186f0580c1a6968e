// Tests how requests of several clients share one engine: which request waits for which, and which share
// prefixes. Steps are counted, never timed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/toy_server.h"

namespace nibble::server {
namespace {

using test::any_port;
using test::Connection;
using testing::HasSubstr;
using testing::StartsWith;

std::string completion(int num_prompt_tokens, int max_tokens, const std::string& more = "") {
  std::string tokens = "7";
  for (int n = 1; n < num_prompt_tokens; ++n) tokens += ",7";
  return fmt::format(R"({{"prompt": [{}], "max_tokens": {}, "temperature": 0{}}})", tokens, max_tokens, more);
}

TEST(ServerFairness, AShortRequestIsAnsweredWhileALongPromptRuns) {
  Running running(model_with_a_fault, room_for(64, 4));
  running.backend.is_gated = true;
  const Connection slow(running.server.port()), quick(running.server.port());
  slow.post("/v1/completions", completion(3200, 1));  // takes 50 steps
  running.wait_for_step(1);
  quick.post("/v1/completions", completion(20, 2));
  running.wait_for_answers(2);
  running.backend.gate.release(3);  // ends the running step, and runs one step for each of the two tokens
  EXPECT_THAT(quick.read(), HasSubstr("\"text\":\"!!\""));
  EXPECT_LE(running.backend.num_begun, 4);
  running.open_gate();
  EXPECT_THAT(slow.read(), HasSubstr("\"text\":\"!\""));
}

TEST(ServerFairness, RequestsOfALowerPriorityNumberAreRunFirst) {
  Running running(model_with_a_fault, room_for(64, 1));
  running.backend.is_gated = true;
  const Connection first(running.server.port()), later(running.server.port()), sooner(running.server.port());
  first.post("/v1/completions", completion(5, 1));
  running.wait_for_step(1);
  later.post("/v1/completions", completion(5, 1));
  running.wait_for_answers(2);
  sooner.post("/v1/completions", completion(5, 1, R"(, "priority": -1)"));
  running.wait_for_answers(3);
  running.backend.gate.release(2);
  EXPECT_THAT(first.read(), HasSubstr("\"text\":\"!\""));
  EXPECT_THAT(sooner.read(), HasSubstr("\"text\":\"!\""));
  running.wait_for_step(3);  // the step of `later`, which was sent before `sooner` but is answered after it
  running.backend.gate.release();
  EXPECT_THAT(later.read(), HasSubstr("\"text\":\"!\""));
}

TEST(ServerFairness, RequestsShareTheirPromptsWithThoseOfTheSameSalt) {
  Running running(model_with_a_fault);
  const auto num_cached = [&](const std::string& more) {
    const std::string answer = running.ask(completion(100, 1, more));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
    const std::string_view key{"\"cached_tokens\":"};
    const size_t at = answer.find(key);
    return at == std::string::npos ? -1 : std::stoi(answer.substr(at + key.size()));
  };
  const std::string a = R"(, "cache_salt": "a")", b = R"(, "cache_salt": "b")";
  EXPECT_EQ(num_cached(a), 0);
  EXPECT_EQ(num_cached(""), 0);
  EXPECT_EQ(num_cached(b), 0);
  EXPECT_EQ(num_cached(a), 96);
  EXPECT_EQ(num_cached(""), 96);
  EXPECT_EQ(num_cached(b), 96);
}

TEST(ServerFairness, IsolatedKeysShareNothingWhateverSaltTheySend) {
  ServerOptions options = any_port();
  options.isolate_keys = true;
  for (const char* key : {"alice:a1", "alice:a2", "bob:b"}) options.api_keys.add(key, "a test");
  Running running(model_with_a_fault, room_for(512, 4), options);
  const auto num_cached = [&](const char* key, const std::string& more = "") {
    const std::string body = completion(100, 1, more);
    const Connection connection(running.server.port());
    connection.send(
        fmt::format("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n"
                    "Connection: close\r\nContent-Length: {}\r\n\r\n{}",
                    key, body.size(), body));
    const std::string answer = connection.read();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
    const std::string_view field{"\"cached_tokens\":"};
    const size_t at = answer.find(field);
    return at == std::string::npos ? -1 : std::stoi(answer.substr(at + field.size()));
  };
  const std::string salt = R"(, "cache_salt": "s")";
  EXPECT_EQ(num_cached("a1"), 0);
  EXPECT_EQ(num_cached("b"), 0);
  EXPECT_EQ(num_cached("a2"), 96) << "another key of the same user";
  EXPECT_EQ(num_cached("b"), 96);
  EXPECT_EQ(num_cached("a1", salt), 0);
  EXPECT_EQ(num_cached("b", salt), 0) << "another user's salt";
  EXPECT_EQ(num_cached("a2", salt), 96);
}

}  // namespace
}  // namespace nibble::server
