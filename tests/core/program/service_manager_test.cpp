#include "core/program/service_manager.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

namespace nibble {
namespace {

using namespace std::chrono_literals;

// An environment variable that is set during this object's lifetime.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

// A service manager's socket at a path or, with '@', at an abstract name.
class Listener {
 public:
  explicit Listener(const std::string& name) : name_(name), handle_(::socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    EXPECT_EQ(::bind(handle_, reinterpret_cast<const sockaddr*>(&address),
                     static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())),
              0);
  }
  ~Listener() {
    ::close(handle_);
    if (name_[0] == '/') std::filesystem::remove(name_);
  }
  std::string receive() const {
    char bytes[200];
    const ssize_t length = ::recv(handle_, bytes, sizeof bytes, MSG_DONTWAIT);
    return length < 0 ? "nothing" : std::string(bytes, static_cast<size_t>(length));
  }

 private:
  std::string name_;
  int handle_;
};

TEST(ServiceManager, GetsEachStateAsOneDatagram) {
  const std::string unique = "nibble-notify-" + std::to_string(::getpid());
  for (const std::string& name : {(std::filesystem::temp_directory_path() / unique).string(), "@" + unique}) {
    const Listener manager(name);
    const Variable socket("NOTIFY_SOCKET", name);
    EXPECT_TRUE(notify_service_manager("READY=1\nSTATUS=Serving tiny")) << name;
    EXPECT_TRUE(notify_service_manager("WATCHDOG=1")) << name;
    EXPECT_EQ(manager.receive(), "READY=1\nSTATUS=Serving tiny") << name;
    EXPECT_EQ(manager.receive(), "WATCHDOG=1") << name;
    EXPECT_EQ(manager.receive(), "nothing") << name;
  }
}

TEST(ServiceManager, NothingIsSentIfNoneListens) {
  EXPECT_FALSE(notify_service_manager("READY=1"));
  for (const std::string& name : {std::string(), std::string("/"), std::string("relative"),
                                  std::string("/nowhere/socket"), "/" + std::string(200, 'x')}) {
    const Variable socket("NOTIFY_SOCKET", name);
    EXPECT_FALSE(notify_service_manager("READY=1")) << name;
  }
}

TEST(ServiceManager, WatchesThisProcessOnlyIfItSaysSo) {
  EXPECT_EQ(watchdog_time(), std::nullopt);
  const Variable time("WATCHDOG_USEC", "30000000");
  EXPECT_EQ(watchdog_time(), 30s);
  {
    const Variable mine("WATCHDOG_PID", std::to_string(::getpid()));
    EXPECT_EQ(watchdog_time(), 30s);
  }
  const Variable others("WATCHDOG_PID", std::to_string(::getpid() + 1));
  EXPECT_EQ(watchdog_time(), std::nullopt);
}

TEST(ServiceManager, ATimeThatIsNoneIsIgnored) {
  for (const char* text : {"", "0", "-5", "soon", "30s"}) {
    const Variable time("WATCHDOG_USEC", text);
    EXPECT_EQ(watchdog_time(), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace nibble
