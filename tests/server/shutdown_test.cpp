// Tests how the server ends.
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

TEST(Server, EndsInTheMiddleOfEverything) {
  ServerOptions options = any_port();
  options.shutdown_timeout = 0s;
  Running running(model_with_a_fault, room_for(512, 1), options);
  running.backend.is_gated = true;
  std::vector<std::unique_ptr<Connection>> connections;
  const std::string padding(1 << 20, 'x');
  for (int i = 0; i < 20; ++i) {  // at the end some may still wait to be parsed
    connections.push_back(std::make_unique<Connection>(running.server.port()));
    connections.back()->post("/v1/completions",
                             R"({"prompt": "abc", "pad": ")" + (i < 3 ? "" : padding) + "\"}");
  }
  while (running.backend.num_begun == 0)
    std::this_thread::sleep_for(1ms);  // else there may be nothing to wait for
  ::kill(::getpid(), SIGTERM);
  running.thread.join();
  EXPECT_FALSE(running.was_complete);
}

ServerOptions with_delay(std::chrono::seconds delay) {
  ServerOptions options = any_port();
  options.shutdown_delay = delay;
  return options;
}

TEST(Server, TakesRequestsInTheDelayAfterASignalAndSaysThatItIsNotReady) {
  Running running(model_with_a_fault, room_for(512, 16), with_delay(1s));
  const auto health = [&] {
    const Connection connection(running.server.port());
    connection.send("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    return connection.read();
  };
  EXPECT_THAT(health(), StartsWith("HTTP/1.1 200 "));
  ::kill(::getpid(), SIGTERM);
  std::string told;
  do told = health();
  while (told.starts_with("HTTP/1.1 200 "));
  EXPECT_THAT(told, EndsWith("{\"status\":\"draining\"}\n"));
  EXPECT_THAT(running.ask(R"({"prompt": "abc", "max_tokens": 4, "temperature": 0})"),
              StartsWith("HTTP/1.1 200 "));
  running.thread.join();
  EXPECT_TRUE(running.was_complete);
}

TEST(Server, ASecondSignalEndsInTheDelay) {
  Running running(model_with_a_fault, room_for(512, 16), with_delay(1h));
  ::kill(::getpid(), SIGTERM);
  ::kill(::getpid(), SIGINT);
  running.thread.join();
  EXPECT_FALSE(running.was_complete);
}

}  // namespace
}  // namespace nibble::server
