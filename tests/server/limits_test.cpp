// Tests the limits that an operator sets for one request: number of answer tokens, and time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/server/toy_server.h"

namespace nibble::server {
namespace {

using namespace std::chrono_literals;
using test::any_port;
using test::Connection;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(ServerLimits, AnAnswerHasAtMostTheTokensThatTheServerAllowsAndAHeaderSaysSo) {
  ServerOptions options = any_port();
  options.max_output_tokens = 20;
  Running running(model_with_a_fault, room_for(64, 4), options);
  const std::string cut = running.ask(R"({"prompt": "abc", "max_tokens": 21, "temperature": 0})");
  EXPECT_THAT(cut, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(cut, HasSubstr("\r\nX-Nibble-Ignored: max_tokens (20)\r\n"));
  EXPECT_THAT(cut, HasSubstr("\"text\":\"" + std::string(20, '!') + "\""));
  EXPECT_THAT(cut, HasSubstr("\"finish_reason\":\"length\""));
  EXPECT_THAT(running.ask(R"({"prompt": "abc", "max_tokens": 20})"), Not(HasSubstr("X-Nibble-Ignored")));
  const std::string contradiction = running.ask(R"({"prompt": "abc", "max_tokens": 30, "min_tokens": 25})");
  EXPECT_THAT(contradiction, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(contradiction, HasSubstr("min_tokens is 25: it must be at most max_tokens, which is 20"));
}

TEST(ServerLimits, AStrictServerRefusesARequestForMoreTokens) {
  ServerOptions options = any_port();
  options.max_output_tokens = 20;
  options.is_strict = true;
  Running running(model_with_a_fault, room_for(64, 4), options);
  EXPECT_THAT(running.ask(R"({"prompt": "abc", "max_tokens": 21})"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(running.ask(R"({"prompt": "abc", "max_tokens": 20})"), StartsWith("HTTP/1.1 200 "));
}

// A server with a request timeout of one second, measured by a clock that the test sets.
struct Timed {
  static ServerOptions options(const std::atomic<int>& now_ms) {
    ServerOptions options = any_port();
    options.request_timeout = 1s;
    options.keep_alive = 1ms;  // the interval at which the server checks the clock
    options.now = [&now_ms] {
      return std::chrono::steady_clock::time_point(std::chrono::milliseconds(now_ms));
    };
    return options;
  }
  std::atomic<int> now_ms{0};
  Running running{model_with_a_fault, room_for(64, 1), options(now_ms)};
};

TEST(ServerLimits, WhenItsTimeHasPassedAnAnswerEndsAndARequestWithoutOneFails) {
  Timed timed;
  timed.running.backend.is_gated = true;
  const Connection running(timed.running.server.port()), waiting(timed.running.server.port());
  running.post("/v1/completions", R"({"prompt": "abc", "max_tokens": 50, "stream": true, "temperature": 0})");
  timed.running.wait_for_step(1);
  waiting.post("/v1/completions", R"({"prompt": "abc", "max_tokens": 50})");
  timed.running.wait_for_answers(2);
  timed.running.backend.gate.release();
  const std::string begun = running.read_until("\"text\":\"!\"");
  timed.running.wait_for_step(2);
  timed.now_ms = 999;
  EXPECT_THAT(running.read_until("\n:\n"), HasSubstr("\n:\n")) << "a comment: nothing has ended";
  timed.now_ms = 1000;
  const std::string rest = running.read();
  EXPECT_THAT(rest, HasSubstr("\"finish_reason\":\"length\""));
  EXPECT_THAT(rest, HasSubstr("data: [DONE]"));
  const std::string refusal = waiting.read();
  EXPECT_THAT(refusal, StartsWith("HTTP/1.1 504 "));
  EXPECT_THAT(refusal, HasSubstr("\"type\":\"timeout_error\""));
  timed.running.open_gate();
  EXPECT_THAT(timed.running.ask(R"({"prompt": "abc", "max_tokens": 4, "temperature": 0})"),
              HasSubstr("\"text\":\"!!!!\""));
  const auto ended = [&](const char* reason) {
    return fmt::format("nibble:request_success_total{{model_name=\"toy\",finished_reason=\"{}\"}} ", reason);
  };
  const std::string metrics = timed.running.server.metrics().text(timed.running.engine.state());
  EXPECT_THAT(metrics, HasSubstr(ended("length") + "2\n"));
  EXPECT_THAT(metrics, HasSubstr(ended("error") + "1\n"));
}

}  // namespace
}  // namespace nibble::server
