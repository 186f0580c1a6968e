// Defers ctrl-C and SIGTERM until the program polls for them, so that it can remove unfinished files first.
#pragma once

#include <signal.h>

namespace nibble::cli {

// Blocks SIGINT and SIGTERM for its lifetime. Construct it before starting other threads, which inherit the
// blocked signals. A signal that take() has not consumed has its usual effect when this object is destroyed.
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
