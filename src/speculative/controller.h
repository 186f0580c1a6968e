// Decides how many drafts a step checks: as many as make the most tokens a second, by what steps of each size have cost and by how
// likely each draft is right. None if none pays.
//
// What it believes can be wrong. So it keeps an account: a step with drafts pays in or takes out the time that it has won or lost
// against plain steps, and plain steps pay in a hundredth of their time. Below zero nothing is drafted, and a step may put at stake no
// more than is there and a few plain steps. So drafting never costs more than a hundredth of the time, and those few steps, whatever the
// drafts are; and what was won once can't be lost for long, because the account has an upper end.
//
// It knows no clock: the time of steps is told to it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "speculative/step_costs.h"

namespace nibble::speculative {

// Drafts for one sequence.
struct DraftOffer {
  std::vector<double> chances{};  // [i] that drafts 0 to i are all right: never ascending
  int num_taken{0};               // the choice
};

struct StepMeasure {
  int num_sequences{0};
  int num_more_rows{0};  // beyond one for each sequence
  int num_drafts{0};     // of them
  int num_tokens{0};     // that the step gave
  double seconds{0};
};

class Controller {
 public:
  // A step in which every sequence got a token, prompts apart.
  void add(const StepMeasure& step);
  // For the next step, which has `num_more_rows` beyond one for each sequence without drafts, and room for `num_rows_left`.
  void choose(int num_sequences, int num_more_rows, int num_rows_left, std::span<DraftOffer> offers);

 private:
  StepCosts costs_;
  double account_seconds_{0};
  int num_drafted_in_a_row_{0};
  int num_plain_since_probe_{0};
  bool is_drafting_{false};
};

}  // namespace nibble::speculative
