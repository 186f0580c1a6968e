// Tests the messages that a server sends to the service manager by which it was started.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cstdlib>
#include <cstring>

#include "tests/server/toy_server.h"

namespace nibble::server {
namespace {

using namespace std::chrono_literals;
using test::any_port;
using test::Connection;
using testing::StartsWith;

// The service manager's socket. NOTIFY_SOCKET has its name during this object's lifetime. With a watchdog
// time of 50 ms no message is lost: Linux queues 11 unread messages, and the server drops a message only if
// the queue stays full for 200 ms.
class ServiceManager {
 public:
  ServiceManager() : handle_(::socket(AF_UNIX, SOCK_DGRAM, 0)) {
    const std::string name = "@nibble-watchdog-" + std::to_string(::getpid());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);
    EXPECT_EQ(::bind(handle_, reinterpret_cast<const sockaddr*>(&address),
                     static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())),
              0);
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
    ::setenv("WATCHDOG_USEC", "50000", 1);
    const timeval patience{60, 0};
    ::setsockopt(handle_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~ServiceManager() {
    ::unsetenv("NOTIFY_SOCKET");
    ::unsetenv("WATCHDOG_USEC");
    ::close(handle_);
  }
  // Waits for the next message, at most for a minute.
  std::string next() const { return receive(0); }
  std::string next_but_watchdogs() const {
    std::string message;
    test::wait_until([&] {
      message = next();
      return message != "WATCHDOG=1";
    });
    return message;
  }
  // Reads the messages that have arrived. Returns their number.
  size_t take_all() const {
    size_t count = 0;
    while (!receive(MSG_DONTWAIT).empty()) ++count;
    return count;
  }

 private:
  std::string receive(int flags) const {
    char bytes[400];
    const ssize_t length = ::recv(handle_, bytes, sizeof bytes, flags);
    return std::string(bytes, static_cast<size_t>(std::max<ssize_t>(0, length)));
  }
  int handle_;
};

TEST(Watchdog, TheServiceManagerGetsEachState) {
  const ServiceManager manager;
  {
    const Running running(model_with_a_fault, room_for(64, 1));
    EXPECT_EQ(manager.next_but_watchdogs(), "STATUS=Loading toy");
    EXPECT_THAT(manager.next_but_watchdogs(), StartsWith("READY=1\nSTATUS=Serving toy on http://127.0.0.1:"));
    EXPECT_EQ(manager.next(), "WATCHDOG=1");
    EXPECT_EQ(manager.next(), "WATCHDOG=1");
    ::kill(::getpid(), SIGHUP);
    EXPECT_THAT(manager.next_but_watchdogs(), StartsWith("RELOADING=1\nMONOTONIC_USEC="));
    EXPECT_EQ(manager.next_but_watchdogs(), "READY=1");
  }
  EXPECT_THAT(manager.next_but_watchdogs(), StartsWith("STOPPING=1\n"));
}

TEST(Watchdog, IsNotFedWhileTheEngineStandsStill) {
  const ServiceManager manager;
  ServerOptions options = any_port();
  options.step_timeout = 0s;
  Running running(model_with_a_fault, room_for(64, 1), options);
  running.backend.is_gated = true;
  const Connection waiting(running.server.port());
  waiting.post("/v1/completions", R"({"prompt": "abc", "max_tokens": 1})");
  running.wait_for_step(1);
  const auto live = [&] {
    const Connection connection(running.server.port());
    connection.send("GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    return connection.read();
  };
  test::wait_until([&] { return live().starts_with("HTTP/1.1 503 "); });
  manager.take_all();
  std::this_thread::sleep_for(250ms);  // ten times the interval between watchdog messages
  EXPECT_EQ(manager.take_all(), 0u);
  running.open_gate();
  EXPECT_THAT(waiting.read(), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(manager.next(), "WATCHDOG=1");
}

}  // namespace
}  // namespace nibble::server
