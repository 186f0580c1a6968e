// Limits the prompt rows of a step, so that answers in the same step get their next token within a target
// time (inter-token latency). How long N prompt rows take depends on the model, the machine and N itself:
// on a GPU the first rows read most experts, and further rows cost little. So the limit follows measured
// steps: it shrinks after a step that took too long and grows after a shorter step, by a factor of two at
// most. No limit changes an answer, because results do not depend on how a prompt is divided.
#pragma once

#include <algorithm>

namespace nibble {

class StepPace {
 public:
  // Prompts always get this number of rows, even if decoding alone misses the target, so that they advance.
  static constexpr int kLeastRows{32};
  // The initial limit. Before any step has been measured, a low limit avoids a pause of unknown length.
  static constexpr int kFirstRows{256};

  // `target_seconds` > 0. `max_rows`: maximum number of rows of a step.
  StepPace(double target_seconds, int max_rows)
      : target_seconds_(target_seconds),
        most_(std::max(max_rows, kLeastRows)),
        limit_(std::min(kFirstRows, most_)) {}

  int max_prompt_rows() const { return limit_; }

  // Learns from a step: rows of answers (0 or more), rows of prompts, and its time.
  void learn(int num_decode_rows, int num_prompt_rows, double seconds) {
    if (num_decode_rows == 0) return;  // no answer waits for such a step
    if (num_prompt_rows == 0) {
      decode_seconds_ += (seconds - decode_seconds_) * (decode_seconds_ > 0 ? kWeight : 1);
      return;
    }
    // Each row of a small step costs more, so a small step does not show how long a step of `limit_` rows
    // would take.
    if (seconds <= target_seconds_ && num_prompt_rows < limit_ / 2) return;
    const double left = std::max(target_seconds_ - decode_seconds_, 0.0);
    const double took = std::max(seconds - decode_seconds_, kShortest);
    const double rows = std::clamp(num_prompt_rows * left / took, 0.5 * limit_, 2.0 * limit_);
    limit_ = std::clamp(static_cast<int>(rows), kLeastRows, most_);
  }

 private:
  static constexpr double kWeight{1.0 / 8};  // weight of a new step in decode_seconds_
  static constexpr double kShortest{1e-6};   // seconds; a shorter or negative difference counts as this

  const double target_seconds_;
  const int most_;
  int limit_;
  double decode_seconds_{0};  // average of recent steps without prompts; 0 before the first such step
};

}  // namespace nibble
