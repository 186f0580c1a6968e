#pragma once

#include <signal.h>

namespace nibble::cli {

// Defers SIGINT and SIGTERM while this object exists, so that the program can first remove unfinished files.
// Construct it before starting threads: they inherit the blocked signals. If take() does not consume a
// pending signal, the destructor lets the signal take its usual effect.
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
