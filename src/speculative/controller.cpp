#include "speculative/controller.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace nibble::speculative {
namespace {

constexpr double kAllowance{0.01};  // a plain step adds this share of its time to the balance
// Limits of the balance, in plain steps' times: loss beyond the balance that one step may risk, initial
// balance, largest balance. In a simulation with step times of an H200 and 70 % acceptance, an initial
// balance of 0 let one wrong draft stop drafting for a hundred steps: drafts then made an answer of 128
// tokens 8 % faster instead of 12 %.
constexpr double kStake{3}, kFirstInAccount{3}, kMostInAccount{16};
// The balance counts at most this multiple of the usual time of a step of the same size.
constexpr double kMostOfUsual{1.5};
// Expected speedup from which drafting begins, and from which it continues.
constexpr double kGainToBegin{1.03}, kGainToGoOn{1.01};
// While all steps have drafts, every kStepsToPlain-th step is plain, to measure plain steps again. While
// likely drafts are not verified because measured costs are too high, every kStepsToProbe-th step is a probe:
// it assumes a low cost (kProbeShare).
constexpr int kStepsToPlain{128}, kStepsToProbe{128};
// The draft head is tried after steps_to_try_ steps. A failed trial doubles steps_to_try_, up to
// kMostStepsToTry. When the head is switched off, steps_to_try_ becomes kStepsToTryAgain. The head is
// switched off when chain_gain_, a decaying average (kKeptGain), falls below kLeastChainGain.
constexpr int kMostStepsToTry{128}, kStepsToTryAgain{32};
constexpr double kLeastChainGain{1.0}, kKeptGain{0.9};
// Number of tokens that the head drafts per sequence: in a trial kDraftsToTry, in other steps kMoreDrafts
// more than the drafts that are worth verifying now.
constexpr int kDraftsToTry{3}, kMoreDrafts{2};

// A probe assumes that verifying one draft of every sequence takes this share of a plain step's time.
constexpr double kProbeShare{0.2};

}  // namespace

bool Controller::is_too_much(double seconds, double plain_seconds) const {
  return seconds - plain_seconds > account_seconds_ + kStake * plain_seconds;
}

double Controller::usual_seconds(const StepMeasure& step) const {
  return step.has_chain ? chain_seconds(step.num_sequences, step.num_more_rows)
                        : *costs_.seconds(step.num_sequences, step.num_more_rows);
}

double Controller::chain_seconds(int num_sequences, int num_more_rows) const {
  const std::optional<double> measured = costs_.seconds_with_chain(num_sequences, num_more_rows);
  return measured
             ? *measured
             : *costs_.seconds(num_sequences, num_more_rows) + chain_share_ * *costs_.plain(num_sequences);
}

void Controller::add(const StepMeasure& step) {
  costs_.add(step.num_sequences, step.num_more_rows, step.seconds, step.has_chain);
  const std::optional<double> plain = costs_.plain(step.num_sequences);
  if (!plain) return;
  if (!std::exchange(has_account_, true)) account_seconds_ = kFirstInAccount * *plain;
  // Without the limit, one step that is slow for a reason other than drafts would make the balance so
  // negative that drafting stops for thousands of steps.
  const double seconds = std::min(step.seconds, kMostOfUsual * usual_seconds(step));
  const double plain_seconds = *plain * step.num_tokens / step.num_sequences;
  if (step.has_chain && step.num_drafts == 0)
    chain_share_ += (1 - kKeptGain) * (std::max(0.0, seconds / *plain - 1) - chain_share_);
  if (is_chaining_ && step.has_chain) {
    chain_gain_ = kKeptGain * chain_gain_ + (1 - kKeptGain) * plain_seconds / seconds;
    is_chaining_ = chain_gain_ >= kLeastChainGain;
    if (!is_chaining_) steps_to_try_ = kStepsToTryAgain;
  }
  if (step.num_drafts > 0 || step.has_chain)
    account_seconds_ += plain_seconds - seconds;
  else
    account_seconds_ += kAllowance * seconds;
  account_seconds_ = std::min(account_seconds_, kMostInAccount * *plain) - step.catch_up_seconds;
}

// Returns the number of drafts to verify that gives the most expected tokens per second in a step that also
// makes drafts for the next step.
Controller::Best Controller::best_with_chain(int num_sequences, std::span<const double> chances) const {
  double num_tokens = num_sequences;
  Best best{.speed = num_tokens / chain_seconds(num_sequences, 0)};
  for (size_t n = 1; n <= chances.size(); ++n) {
    num_tokens += chances[n - 1];
    const double seconds = chain_seconds(num_sequences, static_cast<int>(n));
    if (is_too_much(seconds, *costs_.plain(num_sequences))) break;
    const double speed = num_tokens / seconds;
    if (speed > best.speed) best = {n, speed};
  }
  return best;
}

// Returns the number of tokens to draft per sequence for the next step. `num_checked`: number of drafts that
// this step verifies in all sequences together (a tree counts by its depth). `are_all`: no offered draft was
// left out. The draft model then drafts one more token per sequence, to learn whether that is accepted.
int Controller::num_to_make(int num_checked, bool are_all, int num_sequences) const {
  if (chain_ == Chain::kHead) return num_checked / num_sequences + kMoreDrafts;
  const int each = (num_checked + num_sequences - 1) / num_sequences;
  return std::max(1, each + are_all);
}

// Called while the head is off. After a trial step, decides whether to switch the head on. Otherwise decides
// whether to start a trial.
void Controller::try_head(double plain_speed, const Best& best) {
  if (std::exchange(is_trying_, false)) {
    is_chaining_ = best.num_drafts > 0 && best.speed > plain_speed * kGainToBegin;
    chain_gain_ = best.speed / plain_speed;
    steps_to_try_ = is_chaining_ ? kStepsToTryAgain : std::min(2 * steps_to_try_, kMostStepsToTry);
  } else if (account_seconds_ >= 0 && ++num_since_try_ >= steps_to_try_) {
    num_since_try_ = 0;
    is_trying_ = true;
  }
}

void Controller::pass() {
  num_to_draft_ = 0;
  is_trying_ = is_drafting_ = false;
}

// Returns the `most` likeliest drafts of all sequences, likeliest first. The sort is stable, so a draft stays
// before its children, which follow it in its sequence.
std::vector<Controller::Draft> Controller::likeliest(std::span<DraftOffer> offers, int most) {
  std::vector<Draft> drafts;
  for (DraftOffer& offer : offers)
    for (const double chance : offer.chances) drafts.push_back({chance, &offer});
  std::ranges::stable_sort(drafts, [](const Draft& a, const Draft& b) { return a.chance > b.chance; });
  drafts.resize(std::min(drafts.size(), static_cast<size_t>(std::max(0, most))));
  return drafts;
}

// Returns whether the balance is too low for drafts. While the head is on or tried, the balance may fall to
// minus kStake plain steps, because one trial can cost more than the balance.
bool Controller::is_in_debt(double plain_seconds) const {
  return account_seconds_ < (is_chaining_ || is_trying_ ? -kStake * plain_seconds : 0);
}

// Chooses the drafts to verify and the number to make, for steps that make drafts for the next step. Returns
// false if the draft head is off and the step may still verify drafts that were copied from text.
bool Controller::choose_with_chain(int num_sequences, std::span<const Draft> drafts,
                                   std::span<const DraftOffer> offers) {
  std::vector<double> chances;
  for (const Draft& draft : drafts) chances.push_back(draft.chance);
  const Best best = best_with_chain(num_sequences, chances);
  if (!is_chaining_) try_head(num_sequences / *costs_.plain(num_sequences), best);
  if (!is_chaining_) {
    if (is_trying_) num_to_draft_ = kDraftsToTry;
    return account_seconds_ < 0;
  }
  for (size_t n = 0; n < best.num_drafts; ++n) ++drafts[n].offer->num_taken;
  int num_checked = 0;
  for (const DraftOffer& offer : offers) num_checked += offer.depth_taken();
  const bool are_all = best.num_drafts == chances.size();
  num_to_draft_ = std::min(kMaxDraftsOfHead, num_to_make(num_checked, are_all, num_sequences));
  is_drafting_ = true;
  return true;
}

// Returns the number of drafts to verify that gives the most expected tokens per second; 0 if no number is
// faster than a plain step by the factor `least_gain`. A probe assumes kProbeShare, not the measured cost.
size_t Controller::num_worth_it(int num_sequences, std::span<const Draft> drafts, double least_gain,
                                bool is_probe) const {
  const double plain = *costs_.plain(num_sequences);
  double num_tokens = num_sequences;
  double best_speed = num_tokens / plain * least_gain;
  size_t num_best = 0;
  for (size_t n = 1; n <= drafts.size(); ++n) {
    num_tokens += drafts[n - 1].chance;
    const auto num_drafts = static_cast<int>(n);
    const double seconds = is_probe ? plain * (1 + kProbeShare * num_drafts / num_sequences)
                                    : *costs_.seconds(num_sequences, num_drafts);
    if (is_too_much(seconds, plain)) break;
    if (num_tokens / seconds <= best_speed) continue;
    best_speed = num_tokens / seconds;
    num_best = n;
  }
  return num_best;
}

void Controller::choose(int num_sequences, int num_rows_left, std::span<DraftOffer> offers) {
  for (DraftOffer& offer : offers) offer.num_taken = 0;
  num_to_draft_ = 0;
  const bool was_drafting = std::exchange(is_drafting_, false);
  const std::optional<double> plain = costs_.plain(num_sequences);
  if (!plain || is_in_debt(*plain)) {
    is_chaining_ = is_trying_ = false;
    return;
  }
  if (was_drafting && ++num_drafted_in_a_row_ >= kStepsToPlain) {
    num_drafted_in_a_row_ = 0;
    is_drafting_ = true;  // drafting continues after this plain step
    return;
  }
  const bool is_probe = ++num_plain_since_probe_ >= kStepsToProbe;
  const std::vector<Draft> drafts = likeliest(offers, num_rows_left);
  if (chain_ != Chain::kNone && choose_with_chain(num_sequences, drafts, offers)) return;
  const size_t num_best =
      num_worth_it(num_sequences, drafts, was_drafting ? kGainToGoOn : kGainToBegin, is_probe);
  for (size_t n = 0; n < num_best; ++n) ++drafts[n].offer->num_taken;
  if (num_best == 0) return;
  is_drafting_ = true;
  num_plain_since_probe_ = 0;
}

}  // namespace nibble::speculative
