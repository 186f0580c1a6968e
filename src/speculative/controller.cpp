#include "speculative/controller.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace nibble::speculative {
namespace {

constexpr double kAllowance{0.01};  // of the time of plain steps, to lose on drafts
// In plain steps: what may be at stake beyond what is in the account, and the most that is in it.
constexpr double kStake{3}, kMostInAccount{16};
// A step is booked with at most so many times what its size usually costs.
constexpr double kMostOfUsual{1.5};
// The gain that is expected of drafts when they begin, and while they go on.
constexpr double kGainToBegin{1.05}, kGainToGoOn{1.01};
// While every step has drafts one in so many has none, so that the cost of a plain step is known; and where costs speak against drafts
// that are likely right, they are measured again after so many steps.
constexpr int kStepsToPlain{64}, kStepsToProbe{128};
// A probe takes each drafted row to cost this share of a plain step, whatever was measured.
constexpr double kProbeShare{0.2};

}  // namespace

void Controller::add(const StepMeasure& step) {
  costs_.add(step.num_sequences, step.num_more_rows, step.seconds);
  const std::optional<double> plain = costs_.plain(step.num_sequences);
  if (!plain) return;
  // A step that something else made slow says nothing about drafts: one such step would close the account for thousands.
  const double usual = *costs_.seconds(step.num_sequences, step.num_more_rows);
  const double seconds = std::min(step.seconds, kMostOfUsual * usual);
  if (step.num_drafts > 0)
    account_seconds_ += *plain * step.num_tokens / step.num_sequences - seconds;
  else
    account_seconds_ += kAllowance * seconds;
  account_seconds_ = std::min(account_seconds_, kMostInAccount * *plain);
}

void Controller::choose(int num_sequences, int num_more_rows, int num_rows_left,
                        std::span<DraftOffer> offers) {
  for (DraftOffer& offer : offers) offer.num_taken = 0;
  const bool was_drafting = std::exchange(is_drafting_, false);
  const std::optional<double> plain = costs_.seconds(num_sequences, num_more_rows);
  if (!plain || account_seconds_ < 0) return;
  if (was_drafting && ++num_drafted_in_a_row_ >= kStepsToPlain) {
    num_drafted_in_a_row_ = 0;
    is_drafting_ = true;  // the step after goes on
    return;
  }
  const bool is_probe = ++num_plain_since_probe_ >= kStepsToProbe;

  struct Draft {
    double chance;
    DraftOffer* offer;
  };
  std::vector<Draft> drafts;
  for (DraftOffer& offer : offers)
    for (const double chance : offer.chances) drafts.push_back({chance, &offer});
  // The sort is stable: the earlier draft of a sequence stays in front of the later one.
  std::stable_sort(drafts.begin(), drafts.end(),
                   [](const Draft& a, const Draft& b) { return a.chance > b.chance; });
  drafts.resize(std::min(drafts.size(), static_cast<size_t>(std::max(0, num_rows_left))));
  double num_tokens = num_sequences;
  double best_speed = num_tokens / *plain * (was_drafting ? kGainToGoOn : kGainToBegin);
  size_t num_best = 0;
  for (size_t n = 1; n <= drafts.size(); ++n) {
    num_tokens += drafts[n - 1].chance;
    const auto num_drafts = static_cast<int>(n);
    const double seconds = is_probe ? *plain * (1 + kProbeShare * num_drafts)
                                    : *costs_.seconds(num_sequences, num_more_rows + num_drafts);
    if (seconds - *plain > account_seconds_ + kStake * *plain) break;
    if (num_tokens / seconds <= best_speed) continue;
    best_speed = num_tokens / seconds;
    num_best = n;
  }
  for (size_t n = 0; n < num_best; ++n) ++drafts[n].offer->num_taken;
  if (num_best == 0) return;
  is_drafting_ = true;
  num_plain_since_probe_ = 0;
}

}  // namespace nibble::speculative
