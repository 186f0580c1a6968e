#include "core/program/service_manager.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace nibble {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::optional<int64_t> number_in(const char* name) {
  const std::string_view text = variable(name);
  int64_t value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

bool notify_service_manager(std::string_view state) {
  const std::string_view path = variable("NOTIFY_SOCKET");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() < 2 || path.size() > sizeof address.sun_path || (path[0] != '/' && path[0] != '@'))
    return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';  // a Linux abstract socket, which is not a file
  const int handle = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (handle < 0) return false;
  // Limit sending to 200 ms: a service manager that does not read must not block the caller.
  const timeval patience{0, 200'000};
  ::setsockopt(handle, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const ssize_t sent = ::sendto(handle, state.data(), state.size(), MSG_NOSIGNAL,
                                reinterpret_cast<const sockaddr*>(&address), length);
  ::close(handle);
  return sent == static_cast<ssize_t>(state.size());
}

std::optional<std::chrono::microseconds> watchdog_time() {
  const auto microseconds = number_in("WATCHDOG_USEC");
  if (!microseconds || *microseconds <= 0) return std::nullopt;
  // Child processes inherit the watchdog's variables, but only the process WATCHDOG_PID is watched.
  if (const auto process = number_in("WATCHDOG_PID"); process && *process != ::getpid()) return std::nullopt;
  return std::chrono::microseconds(*microseconds);
}

}  // namespace nibble
