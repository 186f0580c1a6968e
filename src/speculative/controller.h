// Decides how many drafts a step verifies: the number with the most expected tokens per second. It uses the
// measured cost of steps by size and the acceptance probability of each draft, and reads no clock.
// The estimates can be wrong, so the controller keeps a balance of time. A step with drafts adds the time
// that it won over plain steps (without drafts), or subtracts its loss; a plain step adds 1 % of its time.
// While the balance is negative, no drafts are verified. Otherwise one step may lose the balance and the time
// of a few plain steps. So drafting costs at most 1 % of the time plus those few steps. The balance has a
// maximum, so that an early gain can't pay for a long loss.
// A draft head works before it is known whether its drafts will be verified. While the head is on, every step
// makes drafts for the next one, and costs are those of such steps. While it is off, it is tried for single
// steps, less and less often, and switched on if its drafts, compared with the tokens that followed, would
// have paid off. It is switched off when it no longer raises the tokens per second.
#pragma once

#include <span>
#include <vector>

#include "model/batch.h"
#include "speculative/step_costs.h"

namespace nibble::speculative {

struct DraftOffer {  // drafts offered for one sequence
  // chances[i]: probability that draft i and all its ancestors are accepted. In descending order.
  std::vector<double> chances{};
  int num_taken{0};  // out: drafts 0 to num_taken - 1 are verified
  // depths[i]: maximum number of the drafts 0 to i that can be accepted together. Empty: i + 1 (a chain).
  std::vector<int> depths{};
  int depth_taken() const { return depths.empty() || num_taken == 0 ? num_taken : depths[num_taken - 1]; }
};

// Source of the drafts that a step makes for the next step. See num_to_make() for the number of drafts.
enum class Chain { kNone, kHead, kModel };

struct StepMeasure {
  int num_sequences{0};
  int num_more_rows{0};  // rows of the step minus num_sequences
  int num_drafts{0};     // rows that verify drafts; num_more_rows includes them
  int num_tokens{0};     // tokens that the step added to answers
  double seconds{0};
  bool has_chain{false};       // the step also made drafts for the next step
  double catch_up_seconds{0};  // time of the draft model for unread tokens; not in `seconds`
};

class Controller {
 public:
  explicit Controller(Chain chain = Chain::kNone) : chain_(chain) {}
  // Records a step in which every sequence got a token. Steps with prompts must not be recorded.
  void add(const StepMeasure& step);
  // Chooses the drafts of the next step, which has one row per sequence and room for `num_rows_left` drafts.
  void choose(int num_sequences, int num_rows_left, std::span<DraftOffer> offers);
  void pass();

  // Number of tokens to draft per sequence during the step for which choose() was called last.
  int num_to_draft() const { return num_to_draft_; }

 private:
  struct Best {
    size_t num_drafts{0};
    double speed{0};  // expected tokens per second
  };
  struct Draft {
    double chance;
    DraftOffer* offer;
  };
  static std::vector<Draft> likeliest(std::span<DraftOffer> offers, int most);
  bool is_in_debt(double plain_seconds) const;
  bool choose_with_chain(int num_sequences, std::span<const Draft> drafts,
                         std::span<const DraftOffer> offers);
  size_t num_worth_it(int num_sequences, std::span<const Draft> drafts, double least_gain,
                      bool is_probe) const;
  // Whether a step of `seconds` could lose more time than the balance plus the time of kStake plain steps.
  bool is_too_much(double seconds, double plain_seconds) const;
  double usual_seconds(const StepMeasure& step) const;
  double chain_seconds(int num_sequences, int num_more_rows) const;
  Best best_with_chain(int num_sequences, std::span<const double> chances) const;
  int num_to_make(int num_checked, bool are_all, int num_sequences) const;
  void try_head(double plain_speed, const Best& best);

  Chain chain_;
  StepCosts costs_;
  double chain_share_{0.15};  // time to make drafts, as a share of a plain step; guessed until it is measured
  bool is_chaining_{false}, is_trying_{false};
  int num_to_draft_{0};
  int num_since_try_{0}, steps_to_try_{1};
  // Average speedup of steps with the head: time that plain steps need for the same number of tokens, divided
  // by the time of the step.
  double chain_gain_{0};
  bool has_account_{false};  // whether account_seconds_ (the balance) is set
  double account_seconds_{0};
  int num_drafted_in_a_row_{0};
  int num_plain_since_probe_{0};
  bool is_drafting_{false};
};

}  // namespace nibble::speculative
