// The signals that a server takes, and the limits after which its process ends. Both run on a thread of their own, so they work
// although the I/O thread, the engine or a GPU hangs.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace nibble::server {

class Signals {
 public:
  // All are called on the thread of this class.
  struct Actions {
    std::function<void()> end;  // the first SIGINT or SIGTERM
    std::function<void(int)>
        leave;  // ends the process with this exit code: at a second one, or when a limit has passed
    std::function<void()> reload;  // each SIGHUP
  };
  explicit Signals(Actions actions);
  ~Signals();  // SIGHUP is ignored from then on
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // The process ends with `code` unless this object is destroyed within `limit`. Replaces an earlier limit. From any thread.
  void leave_after(std::chrono::milliseconds limit, int code);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::server
