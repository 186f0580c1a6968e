#include "cli/convert/held_signals.h"

#include <algorithm>

namespace nibble::cli {

HeldSignals::HeldSignals() {
  sigemptyset(&held_);
  sigaddset(&held_, SIGINT);
  sigaddset(&held_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &held_, &previous_);
}

HeldSignals::~HeldSignals() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }

int HeldSignals::take() {
  const timespec at_once{};
  return std::max(0, sigtimedwait(&held_, nullptr, &at_once));
}

}  // namespace nibble::cli
