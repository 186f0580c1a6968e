// Tests connections that compete for places, and clients that disconnect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/server/toy_server.h"

namespace nibble::server {
namespace {

using namespace std::chrono_literals;
using test::any_port;
using test::Connection;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kHealth{"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"};
constexpr const char* kAnswered{"{\"status\":\"ok\"}\n"};
constexpr const char* kEndless{R"({"prompt": "abc", "max_tokens": 300})"};

ServerOptions with_places(int num_places) {
  ServerOptions options = any_port();
  options.limits.max_connections = num_places;
  options.limits.read_timeout = options.limits.idle_timeout = 1h;  // no test waits for these timeouts
  return options;
}

TEST(Connections, TheOneThatIsSilentForLongestGivesWay) {
  Running running(model_with_a_fault, room_for(512, 16), with_places(2));
  const uint16_t port = running.server.port();
  const Connection idle(port);
  idle.send(kHealth);
  EXPECT_THAT(idle.read_until(kAnswered), StartsWith("HTTP/1.1 200 "));
  const Connection half(port);
  half.send("GET /health HT");
  const Connection third(port);
  third.send(kHealth);
  EXPECT_THAT(third.read_until(kAnswered), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(idle.read(), "");  // the idle connection was closed,
  half.send("TP/1.1\r\nHost: localhost\r\n\r\n");
  // but not the connection with half a request.
  EXPECT_THAT(half.read_until(kAnswered), StartsWith("HTTP/1.1 200 "));
}

TEST(Connections, BodiesThatAreNotSentGiveWayToo) {
  Running running(model_with_a_fault, room_for(512, 16), with_places(4));
  std::vector<std::unique_ptr<Connection>> writers;
  for (int i = 0; i < 12; ++i) {
    writers.push_back(std::make_unique<Connection>(running.server.port()));
    EXPECT_THAT(writers.back()->announce("/v1/completions", 1000), StartsWith("HTTP/1.1 100 "));
  }
  EXPECT_THAT(running.ask(R"({"prompt": "abc", "max_tokens": 1})"), StartsWith("HTTP/1.1 200 "));
}

TEST(Connections, WhileTheServerWorksForAllOnlyProbesAndMetricsAreAnswered) {
  Running running(model_with_a_fault, room_for(512, 16), with_places(2));
  running.backend.is_gated = true;
  const uint16_t port = running.server.port();
  const Connection one(port), two(port);
  one.post("/v1/completions", kEndless);
  two.post("/v1/completions", kEndless);
  test::wait_until([&] {
    running.backend.gate.release();  // the engine takes requests between steps
    const EngineState state = running.engine.state();
    return state.num_running + state.num_waiting == 2;
  });
  EXPECT_THAT(running.ask(kEndless), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("\r\nRetry-After: 1\r\n"),
                                           HasSubstr("\r\nConnection: close\r\n"),
                                           HasSubstr("all 2 connections are in use (--max-connections)")));
  for (const char* path : {"/health", "/live", "/metrics"})
    for (int i = 0; i < 30; ++i) {
      const Connection probe(port);
      probe.send(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", path));
      EXPECT_THAT(probe.read(), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("\r\nConnection: close\r\n")));
    }
  std::vector<std::unique_ptr<Connection>> idle;
  for (int i = 0; i < 100; ++i) idle.push_back(std::make_unique<Connection>(port));
  const Connection probe(port);
  probe.send(kHealth);
  EXPECT_THAT(probe.read(), StartsWith("HTTP/1.1 200 "));
  running.open_gate();
  EXPECT_THAT(one.read(), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(two.read(), StartsWith("HTTP/1.1 200 "));
}

TEST(Connections, AClientThatLeavesIsNoticedThoughBytesOfItWait) {
  for (const size_t num_waiting : {size_t{1}, size_t{32} << 10}) {
    Running running(model_with_a_fault, room_for(512, 1));
    running.backend.is_gated = true;
    Connection connection(running.server.port());
    const std::string body = R"({"prompt": "abc", "max_tokens": 3000})";
    connection.send(
        fmt::format("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}",
                    body.size(), body));
    running.wait_for_step(1);
    connection.send(std::string(num_waiting, '\n'));
    connection.close();
    test::wait_until([&] {
      running.backend.gate.release();  // the engine takes cancellations between steps
      return running.engine.state().num_running == 0;
    });
    running.wait_until_someone_has_gone();
    EXPECT_LT(running.backend.num_begun, 3000);
  }
}

TEST(Connections, BodiesOfClientsThatHaveLeftAreNotParsed) {
  Running running(model_with_a_fault, room_for(512, 16));
  const std::string words = R"({"prompt": ")" + std::string(512 << 10, 'a') + "\"}";
  std::vector<std::unique_ptr<Connection>> leaving;
  for (int i = 0; i < 8; ++i) {
    leaving.push_back(std::make_unique<Connection>(running.server.port()));
    leaving.back()->post("/tokenize", words);
  }
  leaving.clear();
  const Connection stays(running.server.port());
  stays.post("/tokenize", words);
  EXPECT_THAT(stays.read(), StartsWith("HTTP/1.1 200 "));
  running.wait_until_someone_has_gone();
}

TEST(Connections, StreamsTellProxiesNotToHoldEventsBack) {
  Running running(model_with_a_fault);
  EXPECT_THAT(running.ask(R"({"prompt": "abc", "max_tokens": 1, "stream": true})"),
              HasSubstr("\r\nX-Accel-Buffering: no\r\n"));
  EXPECT_THAT(running.ask(R"({"prompt": "abc", "max_tokens": 1})"), testing::Not(HasSubstr("X-Accel")));
}

TEST(Connections, BadRequestsEndTheirConnection) {
  Running running(model_with_a_fault);
  const Connection connection(running.server.port());
  connection.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n");
  connection.send(kHealth);
  EXPECT_THAT(connection.read(), AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("\r\nConnection: close\r\n"),
                                       testing::Not(HasSubstr(kAnswered))));
}

TEST(Connections, AnswersThatCanNeverBeGivenAreRefusedBeforeTheirPromptsAreTokenised) {
  Running running(model_with_a_fault);
  std::string prompts;
  for (int i = 0; i < 1000; ++i)
    prompts += std::string(i > 0 ? "," : "") + "\"" + std::string(100, 'a') + "\"";
  EXPECT_THAT(running.ask("{\"prompt\": [" + prompts + "]}"),
              AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("the request needs 1000 answers at once")));
  // The empty prompt would be refused too, but the number of answers is checked before any prompt is read.
  EXPECT_THAT(running.ask("{\"prompt\": [" + prompts + ", \"\"]}"), HasSubstr("1001 answers at once"));
}

}  // namespace
}  // namespace nibble::server
