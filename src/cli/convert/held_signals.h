// ctrl-C and SIGTERM at the moments that suit the program: a file that is being written is removed first.
#pragma once

#include <signal.h>

namespace nibble::cli {

// While one of these lives the signals wait. Threads that are to leave them alone are started later than this. What was not taken
// in the end acts as it always does.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  int take();  // the number of one that came; 0: none

 private:
  sigset_t held_, previous_;
};

}  // namespace nibble::cli
