// Decides how many drafts a step checks: as many as make the most tokens a second, by what steps of each size have cost and by how
// likely each draft is right. None if none pays.
//
// What it believes can be wrong. So it keeps an account: a step with drafts pays in or takes out the time that it has won or lost
// against plain steps, and plain steps pay in a hundredth of their time. Below zero nothing is drafted, and a step may put at stake no
// more than is there and a few plain steps. So drafting never costs more than a hundredth of the time, and those few steps, whatever the
// drafts are; and what was won once can't be lost for long, because the account has an upper end.
//
// A draft head works before anybody knows whether its drafts will be checked: a step that is to have some pays for them in the step
// before. So the head is on or off. On, every step makes drafts for the next, and its cost is that of such steps. Off, it is tried for
// one step now and then, at first soon and then ever more seldom; its drafts are compared with what comes, and it goes on when they
// would have paid. It goes off when the steps with it have given no more tokens a second than plain ones.
//
// It knows no clock: the time of steps is told to it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/batch.h"
#include "speculative/step_costs.h"

namespace nibble::speculative {

// Drafts for one sequence.
struct DraftOffer {
  std::vector<double> chances{};  // [i] that draft i and those that lead to it are all right: never ascending
  int num_taken{0};               // the choice: the first
  // [i] how many of drafts 0 to i can be right at once; empty: all, as they are a chain.
  std::vector<int> depths{};
  int depth_taken() const { return depths.empty() || num_taken == 0 ? num_taken : depths[num_taken - 1]; }
};

// Who makes drafts in a step for the next one. A model's cost so much that it makes no more than are likely to be checked.
enum class Chain { kNone, kHead, kModel };

struct StepMeasure {
  int num_sequences{0};
  int num_more_rows{0};  // beyond one for each sequence
  int num_drafts{0};     // of them
  int num_tokens{0};     // that the step gave
  double seconds{0};
  bool has_chain{false};  // drafts were made for the next step in it
  // Beside these: the model that drafts read what it lagged behind by.
  double catch_up_seconds{0};
};

class Controller {
 public:
  explicit Controller(Chain chain = Chain::kNone) : chain_(chain) {}
  // A step in which every sequence got a token, prompts apart.
  void add(const StepMeasure& step);
  // For the next step, which has one row for each sequence without drafts, and room for `num_rows_left`.
  void choose(int num_sequences, int num_rows_left, std::span<DraftOffer> offers);
  // The next step has no drafts, whatever is offered.
  void pass();

  // Tokens that are to be drafted for each sequence in the step that was chosen last.
  int num_to_draft() const { return num_to_draft_; }

 private:
  struct Best {
    size_t num_drafts{0};
    double speed{0};  // tokens a second
  };
  // Says whether a step would put too much at stake.
  bool is_too_much(double seconds, double plain_seconds) const;
  double usual_seconds(const StepMeasure& step) const;
  double chain_seconds(int num_sequences, int num_more_rows) const;
  Best best_with_chain(int num_sequences, std::span<const double> chances) const;
  int num_to_make(int num_checked, bool are_all, int num_sequences) const;
  void try_head(double plain_speed, const Best& best);

  Chain chain_;
  StepCosts costs_;
  double chain_share_{0.15};  // what that is thought to cost, in plain steps, where it was not measured
  bool is_chaining_{false}, is_trying_{false};
  int num_to_draft_{0};
  int num_since_try_{0}, steps_to_try_{1};
  double chain_gain_{
      0};  // plain steps' time for the tokens of steps with the head, over the time of these: of late
  bool has_account_{false};  // from the first step on whose cost is known
  double account_seconds_{0};
  int num_drafted_in_a_row_{0};
  int num_plain_since_probe_{0};
  bool is_drafting_{false};
};

}  // namespace nibble::speculative
