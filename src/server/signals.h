// Handles a server's signals, and time limits for the end of its process. Has a thread of its own, so that
// the limits hold even if the I/O thread, the engine or a GPU hangs.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace nibble::server {

class Signals {
 public:
  // Reactions to signals. All functions are called on the signal thread.
  struct Actions {
    std::function<void()> end;  // called on the first SIGINT or SIGTERM
    // Ends the process with an exit code: on a second SIGINT or SIGTERM, or when a time limit has passed.
    std::function<void(int)> leave;
    std::function<void()> reload;  // called on each SIGHUP
  };
  explicit Signals(Actions actions);
  ~Signals();  // from then on SIGHUP is ignored

  // Ends the process with `code` unless this object is destroyed within `limit`. Replaces earlier calls.
  void leave_after(std::chrono::milliseconds limit, int code);  // any thread may call it

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::server
