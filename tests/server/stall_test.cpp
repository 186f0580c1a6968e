// Tests how a server reports an engine that hangs or is lost.
#include "server/service/condition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/server/toy_server.h"

namespace nibble::server {
namespace {

using namespace std::chrono_literals;
using test::any_port;
using test::Connection;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

Stall after(double seconds, const StepLimit& limit, double expected_seconds = 0) {
  return stall_of({seconds, expected_seconds}, limit);
}

TEST(Stall, BeginsAtTheLimitAndIsForGoodAtTwiceTheLimit) {
  EXPECT_EQ(after(0, {}), Stall::kNone);
  EXPECT_EQ(after(60, {}), Stall::kNone);
  EXPECT_EQ(after(61, {}), Stall::kSlow);
  EXPECT_EQ(after(120, {}), Stall::kSlow);
  EXPECT_EQ(after(121, {}), Stall::kForever);
}

TEST(Stall, IsLaterWhereRowsAreSlowOrWeightsMayBeOnADisk) {
  EXPECT_EQ(after(300, {}, /*expected_seconds=*/100), Stall::kNone);
  EXPECT_EQ(after(401, {}, /*expected_seconds=*/100), Stall::kSlow);
  const StepLimit of_13_gb{.num_host_bytes = 13'000'000'000};
  EXPECT_EQ(after(130, of_13_gb), Stall::kNone);
  EXPECT_EQ(after(131, of_13_gb), Stall::kSlow);
}

TEST(Stall, BeginsAtTheGivenLimitWhateverIsExpected) {
  const StepLimit limit{.given = 5s, .num_host_bytes = 13'000'000'000};
  EXPECT_EQ(after(5, limit, /*expected_seconds=*/100), Stall::kNone);
  EXPECT_EQ(after(6, limit, /*expected_seconds=*/100), Stall::kSlow);
}

std::string get(const Running& running, const std::string& path) {
  const Connection connection(running.server.port());
  connection.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  return connection.read();
}

ServerOptions with_step_timeout(std::chrono::seconds timeout) {
  ServerOptions options = any_port();
  options.step_timeout = timeout;
  return options;
}

struct Asked {
  explicit Asked(Running& running) : connection(running.server.port()) {
    running.backend.is_gated = true;
    connection.post("/v1/completions", R"({"prompt": "abc", "max_tokens": 2})");
    running.wait_for_step(1);
  }
  Connection connection;
};

TEST(Server, SaysThatItStandsStillWhileAModelHangsAndRecoversWithIt) {
  Running running(model_with_a_fault, room_for(512, 16), with_step_timeout(0s));
  EXPECT_THAT(get(running, "/health"), StartsWith("HTTP/1.1 200 "));
  const Asked asked(running);
  for (const char* path : {"/health", "/live"})
    EXPECT_THAT(get(running, path), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr(R"("status":"stalled")"),
                                          HasSubstr("requests are waiting, but no step has finished for")));
  EXPECT_THAT(get(running, "/metrics"),
              AllOf(HasSubstr("nibble:engine_seconds_without_step{"),
                    testing::Not(HasSubstr("nibble:engine_seconds_without_step{model_name=\"toy\"} 0\n"))));
  running.open_gate();
  EXPECT_THAT(asked.connection.read(), StartsWith("HTTP/1.1 200 "));
  test::wait_until([&] { return !get(running, "/health").starts_with("HTTP/1.1 503 "); });
  EXPECT_THAT(get(running, "/live"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(get(running, "/metrics"),
              HasSubstr("nibble:engine_seconds_without_step{model_name=\"toy\"} 0\n"));
}

TEST(Server, IsReadyWhileAStepTakesLessThanTheTimeout) {
  Running running(model_with_a_fault, room_for(512, 16), with_step_timeout(1h));
  const Asked asked(running);
  EXPECT_THAT(get(running, "/health"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(get(running, "/live"), StartsWith("HTTP/1.1 200 "));
}

TEST(Server, EndsWithAnErrorForEveryRequestWhereTheDeviceIsLost) {
  Running running([](std::span<const TokenId>) -> std::vector<float> {
    throw BackendLost("the GPU has fallen off the bus");
  });
  running.backend.is_gated = true;
  std::vector<std::unique_ptr<Connection>> connections;
  for (int n = 0; n < 20; ++n) {  // more requests than the engine runs at the same time
    connections.push_back(std::make_unique<Connection>(running.server.port()));
    connections.back()->post("/v1/completions", R"({"prompt": "abc"})");
  }
  // Wait for the server's own count, because the engine does not update its counts while a step is blocked.
  test::wait_until([&] { return get(running, "/load").find(R"({"server_load":20})") != std::string::npos; });
  running.open_gate();
  for (const auto& connection : connections)
    EXPECT_THAT(connection->read(),
                AllOf(StartsWith("HTTP/1.1 500 "), HasSubstr("the GPU has fallen off the bus")));
  running.thread.join();
  EXPECT_EQ(running.end, ServerEnd::kEngineLost);
}

TEST(Server, EndsWhereThreeStepsInARowFailInTheSameWay) {
  Running running(model_with_a_fault);
  const std::string fault = R"({"prompt": "X", "max_tokens": 4})",
                    good = R"({"prompt": "a", "max_tokens": 4})";
  for (int n = 0; n < 2; ++n) EXPECT_THAT(running.ask(fault), StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(running.ask(good), StartsWith("HTTP/1.1 200 "));
  for (int n = 0; n < 3; ++n) EXPECT_THAT(running.ask(fault), StartsWith("HTTP/1.1 500 "));
  running.thread.join();
  EXPECT_EQ(running.end, ServerEnd::kEngineLost);
  EXPECT_THAT(running.engine.state().lost, HasSubstr("3 steps in a row failed: the device is on fire"));
}

}  // namespace
}  // namespace nibble::server
