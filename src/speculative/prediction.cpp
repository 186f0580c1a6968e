#include "speculative/prediction.h"

#include <algorithm>
#include <cstdlib>

namespace nibble::speculative {
namespace {

constexpr int kPredictionOrder{3};
constexpr int kPredictionMatch{16};
constexpr int kPredictionPlaces{32};  // maximum number of occurrences compared per search

}  // namespace

PredictionDrafter::PredictionDrafter(const Prediction& prediction)
    : predicted_(kPredictionOrder), num_before_(prediction.before.size()) {
  for (const TokenId token : prediction.before) predicted_.push(token);
  for (const TokenId token : prediction.text) predicted_.push(token);
  is_found_.resize(predicted_.tokens().size());
}

void PredictionDrafter::push(std::span<const TokenId> tokens) {
  // A long list of tokens is the prompt. The end of the prompt may be the beginning of the prediction.
  if (tokens.size() > static_cast<size_t>(kPredictionMatch)) {
    recent_.assign(tokens.end() - kPredictionMatch, tokens.end());
    return look_for_place();
  }
  for (const TokenId token : tokens) {
    if (recent_.size() == static_cast<size_t>(kPredictionMatch)) recent_.erase(recent_.begin());
    recent_.push_back(token);
    const auto place = static_cast<size_t>(place_);
    if (num_in_step_ > 0 && place < predicted_.tokens().size() && predicted_.tokens()[place] == token) {
      is_found_[place] = true;
      ++place_;
      ++num_in_step_;
    } else {
      look_for_place();
    }
  }
}

// Moves to the longest match of the answer's end in the prediction; if several are equally long, to the
// nearest.
void PredictionDrafter::look_for_place() {
  num_in_step_ = 0;
  int best = 0, place = predicted_.latest(recent_);
  for (int n = 0; place > 0 && n < kPredictionPlaces; ++n, place = predicted_.before(place)) {
    const int num_matched = predicted_.num_matched(recent_, place, kPredictionMatch);
    if (num_matched < kPredictionOrder) continue;
    if (num_matched > num_in_step_ ||
        (num_matched == num_in_step_ && std::abs(place - place_) < std::abs(best - place_))) {
      num_in_step_ = num_matched;
      best = place;
    }
  }
  if (best == 0) return;
  place_ = best;
  for (int n = 1; n <= num_in_step_; ++n) is_found_[static_cast<size_t>(place_ - n)] = true;
}

int PredictionDrafter::num_found() const {
  return static_cast<int>(
      std::count(is_found_.begin() + static_cast<ptrdiff_t>(num_before_), is_found_.end(), true));
}

int num_predicted(const Prediction& prediction, std::span<const TokenId> answer) {
  PredictionDrafter drafter(prediction);
  for (const TokenId token : answer) drafter.push({&token, 1});
  return drafter.num_found();
}

Proposal PredictionDrafter::propose(int most) {
  if (num_in_step_ == 0) return {};
  const auto rest = predicted_.tokens().subspan(static_cast<size_t>(place_));
  const auto next = rest.first(std::min(rest.size(), static_cast<size_t>(most)));
  return {.tokens = {next.begin(), next.end()}, .num_matched = num_in_step_};
}

}  // namespace nibble::speculative
