// Handles a server's signals, and the time limits after which its process ends. Has its own thread, so it
// works even if the I/O thread, the engine or a GPU hangs.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace nibble::server {

class Signals {
 public:
  // All are called on this class's thread.
  struct Actions {
    // Called on the first SIGINT or SIGTERM.
    std::function<void()> end;
    // Ends the process with this exit code. Called on a second SIGINT or SIGTERM, or when a limit has passed.
    std::function<void(int)> leave;
    // Called on each SIGHUP.
    std::function<void()> reload;
  };
  explicit Signals(Actions actions);
  ~Signals();  // from then on SIGHUP is ignored
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Ends the process with `code` unless this object is destroyed within `limit`. Replaces an earlier limit.
  // Any thread may call it.
  void leave_after(std::chrono::milliseconds limit, int code);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::server
