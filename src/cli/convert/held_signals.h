#pragma once

#include <signal.h>

namespace nibble::cli {

// Defers SIGINT and SIGTERM while this object exists, so that unfinished files can be removed first. Must be
// constructed before threads are started, because new threads inherit the blocked signals. A pending signal
// that take() has not consumed has its usual effect in the destructor.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  int take();  // returns the number of a pending signal and consumes it; 0 if no signal is pending

 private:
  sigset_t held_, previous_;
};

}  // namespace nibble::cli
