// Decides how long a prefill-only step waits for more prompts. Answers that end together are often followed
// by requests that arrive together. Saving one prefill step gains much more time than the wait costs, because
// a step with few prompts reads almost as many experts as a step with many.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "core/system/clock.h"

namespace nibble {

// The wait ends when the number of requests that arrived together last time has arrived. The wait lasts at
// most `at_most`, and at most `share_of_step` of the time of the last prefill-only step.
struct GatherOptions {
  std::chrono::duration<double> at_most{1e-3};
  double share_of_step{1.0 / 16};
};

class Gathering {
 public:
  // `most`: limit of running sequences. A wait expects at most this number of requests.
  Gathering(const GatherOptions& options, int most)
      : options_(options), longest_(options.at_most), most_(most), num_together_(most) {}

  // Starts a wait when `num_waiting` requests have arrived. Expects the number that arrived together last
  // time: with a single client, every wait except the first ends at once.
  void begin(int num_waiting) {
    num_expected_ = std::min(std::exchange(num_together_, num_waiting), most_);
    since_first_.emplace();
  }
  // Returns the time left to wait; nullopt if all expected requests have arrived or the time is over.
  std::optional<std::chrono::duration<double>> left(int num_waiting) const {
    const auto left = longest_ - std::chrono::duration<double>(since_first_->seconds());
    if (num_waiting >= num_expected_ || left.count() <= 0) return {};
    return left;
  }
  // Counts a request as arrived together with the others if it was submitted less than `longest_` after
  // begin().
  void count(const Stopwatch& submitted) {
    num_together_ += since_first_ && since_first_->seconds() - submitted.seconds() < longest_.count();
  }
  // Called when no sequence runs or waits. Later requests then do not count as arrived together.
  void end() { since_first_.reset(); }
  void learn(double step_seconds) {
    longest_ =
        std::min(options_.at_most, std::chrono::duration<double>(options_.share_of_step * step_seconds));
  }

 private:
  const GatherOptions options_;
  std::chrono::duration<double> longest_;
  const int most_;
  int num_together_, num_expected_{0};  // counts of requests: arrived together, expected by this wait
  std::optional<Stopwatch> since_first_;
};

}  // namespace nibble
