// How long a step that has prompts alone waits for more of them. Answers that end together are followed by requests that come together, and
// each step of prompts that is saved is worth many such moments: with a few prompts it reads almost all experts, as with many.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "core/clock.h"

namespace nibble {

// Such a step waits until as many requests have come as came together the last time: at most this long, and no longer than this share of what
// such a step last took.
struct GatherOptions {
  std::chrono::duration<double> at_most{1e-3};
  double share_of_step{1.0 / 16};
};

class Gathering {
 public:
  // `most`: requests that can be expected.
  Gathering(const GatherOptions& options, int most)
      : options_(options), longest_(options.at_most), most_(most), num_together_(most) {}

  // Starts to wait, for those that are expected; `num_waiting` have come. A client that is alone waits once: after that one request is as many
  // as came together.
  void begin(int num_waiting) {
    num_expected_ = std::min(std::exchange(num_together_, num_waiting), most_);
    since_first_.emplace();
  }
  // Returns how long is still to be waited; nothing if all have come, or it was long enough.
  std::optional<std::chrono::duration<double>> left(int num_waiting) const {
    const auto left = longest_ - std::chrono::duration<double>(since_first_->seconds());
    if (num_waiting >= num_expected_ || left.count() <= 0) return {};
    return left;
  }
  // A request came. It counts as one of those that came together if it came soon enough to be waited for.
  void count(const Stopwatch& submitted) {
    num_together_ += since_first_ && since_first_->seconds() - submitted.seconds() < longest_.count();
  }
  // All have ended, and nobody waits: what comes next did not come with them.
  void end() { since_first_.reset(); }
  // A step of prompts alone took so long.
  void learn(double step_seconds) {
    longest_ =
        std::min(options_.at_most, std::chrono::duration<double>(options_.share_of_step * step_seconds));
  }

 private:
  const GatherOptions options_;
  std::chrono::duration<double> longest_;
  const int most_;
  int num_together_, num_expected_{0};  // the last time; this time
  std::optional<Stopwatch> since_first_;
};

}  // namespace nibble
