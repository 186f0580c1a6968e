#pragma once

#include <signal.h>

namespace nibble::cli {

// Defers SIGINT and SIGTERM during its lifetime, so that the program can remove unfinished files first.
// Construct it before other threads, which inherit the blocked signals. A signal that take() did not consume
// has its usual effect when this object is destroyed.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  int take();  // returns the number of a pending signal and consumes it; 0: none

 private:
  sigset_t held_, previous_;
};

}  // namespace nibble::cli
