// Tests how the server shuts down.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/server/toy_server.h"

namespace nibble::server {
namespace {

using namespace std::chrono_literals;
using test::any_port;
using test::Connection;
using testing::EndsWith;
using testing::StartsWith;

std::string health_of(const Running& running) {
  const Connection connection(running.server.port());
  connection.send("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  return connection.read();
}

TEST(Server, EndsInTheMiddleOfEverything) {
  ServerOptions options = any_port();
  options.shutdown_timeout = 0s;
  Running running(model_with_a_fault, room_for(512, 1), options);
  running.backend.is_gated = true;
  std::vector<std::unique_ptr<Connection>> connections;
  const std::string padding(1 << 20, 'x');
  // At shutdown some of these requests may still wait to be parsed.
  for (int i = 0; i < 20; ++i) {
    connections.push_back(std::make_unique<Connection>(running.server.port()));
    connections.back()->post("/v1/completions",
                             R"({"prompt": "abc", "pad": ")" + (i < 3 ? "" : padding) + "\"}");
  }
  // Wait until a step runs. Otherwise the signal may arrive before any request, and the server has no
  // answer to cancel.
  running.wait_for_step(1);
  ::kill(::getpid(), SIGTERM);
  running.thread.join();
  EXPECT_EQ(running.end, ServerEnd::kCancelled);
}

ServerOptions with_delay(std::chrono::seconds delay) {
  ServerOptions options = any_port();
  options.shutdown_delay = delay;
  return options;
}

TEST(Server, TakesRequestsInTheDelayAfterASignalAndSaysThatItIsNotReady) {
  Running running(model_with_a_fault, room_for(512, 16), with_delay(1s));
  EXPECT_THAT(health_of(running), StartsWith("HTTP/1.1 200 "));
  ::kill(::getpid(), SIGTERM);
  std::string told;
  test::wait_until([&] {
    told = health_of(running);
    return !told.starts_with("HTTP/1.1 200 ");
  });
  EXPECT_THAT(told, EndsWith("{\"status\":\"draining\"}\n"));
  EXPECT_THAT(running.ask(R"({"prompt": "abc", "max_tokens": 4, "temperature": 0})"),
              StartsWith("HTTP/1.1 200 "));
  running.thread.join();
  EXPECT_EQ(running.end, ServerEnd::kComplete);
}

// Tests in which the server ends its process while it still works. EXPECT_EXIT runs each in a new process.
class EndOfTheProcess : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(EndOfTheProcess, ASecondSignalEndsItInTheDelay) {
  const auto body = [] {
    Running running(model_with_a_fault, room_for(512, 16), with_delay(1h));
    ::kill(::getpid(), SIGTERM);
    ::kill(::getpid(), SIGINT);
    running.thread.join();
    std::_Exit(1);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(130), "");
}

// Sends a request whose step never ends, as if the GPU hung.
std::unique_ptr<Connection> ask_a_model_that_hangs(Running& running) {
  running.backend.is_gated = true;
  auto connection = std::make_unique<Connection>(running.server.port());
  connection->post("/v1/completions", R"({"prompt": "abc"})");
  running.wait_for_step(1);
  return connection;
}

TEST_F(EndOfTheProcess, ASecondSignalEndsItThoughTheModelHangs) {
  const auto body = [] {
    ServerOptions options = any_port();
    options.shutdown_timeout = 1h;
    Running running(model_with_a_fault, room_for(512, 1), options);
    const auto connection = ask_a_model_that_hangs(running);
    ::kill(::getpid(), SIGTERM);
    ::kill(::getpid(), SIGINT);
    running.thread.join();
    std::_Exit(1);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(130), "");
}

TEST_F(EndOfTheProcess, TheTimeoutEndsItThoughTheModelHangsAndItsClientsGetAnError) {
  const auto body = [] {
    ServerOptions options = any_port();
    options.shutdown_timeout = 0s;
    options.last_words = options.teardown = 200ms;
    auto* const running = new Running(model_with_a_fault, room_for(512, 1), options);
    const auto connection = ask_a_model_that_hangs(*running);
    ::kill(::getpid(), SIGTERM);
    const std::string answer = connection->read();
    fmt::print(stderr, "{}\n", answer.substr(0, answer.find("\r\n")));
    running->thread.join();
    EXPECT_EQ(running->end, ServerEnd::kCancelled);
    running->engine.~Engine();  // waits for the step that never ends
    std::_Exit(1);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(130), "HTTP/1.1 503 ");
}

TEST(Server, ReloadsAtEachHangupAndGoesOn) {
  Running running(model_with_a_fault);
  std::atomic<int> num_reloads{0};
  running.server.on_reload([] { throw std::runtime_error("the file has gone"); });
  running.server.on_reload([&] { ++num_reloads; });
  for (int n = 1; n <= 3; ++n) {
    ::kill(::getpid(), SIGHUP);
    test::wait_until([&] { return num_reloads >= n; });
  }
  EXPECT_THAT(health_of(running), StartsWith("HTTP/1.1 200 "));
}

}  // namespace
}  // namespace nibble::server
