// Measures how far given results are from golden data.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/errors/check.h"
#include "model/golden/golden.h"

namespace nibble {
namespace {

// Sets `worst` to the larger value. A NaN counts as the largest (std::max would drop it).
void keep_worst(double& worst, double value) {
  if (!(value <= worst)) worst = value;
}

struct RowError {
  double relative_l2;       // |ours - expected| / |expected|
  double root_mean_square;  // root mean square of the errors of single logits
};

RowError compare_row(std::span<const float> expected, std::span<const float> ours, double& max_logit) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double distance = ours[i] - double{expected[i]};
    error += distance * distance;
    norm += double{expected[i]} * expected[i];
    keep_worst(max_logit, std::abs(distance));
  }
  return {std::sqrt(error / norm), std::sqrt(error / static_cast<double>(expected.size()))};
}

// Compares the logits of the last positions: golden data have no others.
void compare_logits(const GoldenPrompt& golden, std::span<const float> logits, size_t vocab,
                    double tied_margin, GoldenDifference& result) {
  const std::span<const float> expected(golden.logits), ours = logits.last(golden.logits.size());
  for (size_t row = 0; row < expected.size(); row += vocab) {
    const RowError error =
        compare_row(expected.subspan(row, vocab), ours.subspan(row, vocab), result.max_logit);
    const size_t position = golden.ids.size() - (expected.size() - row) / vocab;
    const bool is_tied = !golden.router_margin.empty() && golden.router_margin[position] <= tied_margin;
    keep_worst(is_tied ? result.tied_l2 : result.relative_l2, error.relative_l2);
  }
}

struct TopDifference {
  int num_compared{0}, num_wrong{0};
};

// Compares the top 5 of one position. Skips a token whose golden log-probability is within `top_gap` of the
// next higher or lower token: the two may have swapped. Golden data lack the token after the fifth. So the
// gap below the fifth is taken from our logits: from the fifth to our best token outside the golden five.
TopDifference compare_top(const GoldenPrompt& golden, size_t position, std::span<const float> logits,
                          double top_gap) {
  const auto golden_ids = std::span(golden.top_ids).subspan(position * kGoldenTop, kGoldenTop);
  const auto golden_logprobs = std::span(golden.top_logprobs).subspan(position * kGoldenTop, kGoldenTop);
  TopDifference result;
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto is_likelier = [&](TokenId a, TokenId b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  };
  std::partial_sort(order.begin(), order.begin() + kGoldenTop + 1, order.end(), is_likelier);
  const auto outside = std::ranges::find_if(
      order, [&](TokenId id) { return std::ranges::find(golden_ids, id) == golden_ids.end(); });

  for (int place = 0; place < kGoldenTop; ++place) {
    const bool is_last = place + 1 == kGoldenTop;
    const double above = place == 0 ? std::numeric_limits<double>::infinity()
                                    : golden_logprobs[place - 1] - golden_logprobs[place];
    const double below = is_last ? std::abs(logits[golden_ids[place]] - logits[*outside])
                                 : golden_logprobs[place] - golden_logprobs[place + 1];
    if (above <= top_gap || below <= top_gap) continue;
    ++result.num_compared;
    result.num_wrong += order[place] != golden_ids[place];
  }
  return result;
}

// Returns the probability that a normally distributed error makes the margin negative, so that the router
// chooses another expert.
double other_expert_probability(double margin, const GoldenTolerance& tolerance) {
  return tolerance.margin_error > 0 ? std::erfc(margin / (tolerance.margin_error * std::sqrt(2))) / 2 : 0;
}

// Returns the largest accepted count: the expected one plus three standard deviations.
int most_expected(double expected) { return static_cast<int>(expected + 3 * std::sqrt(expected)); }

}  // namespace

GoldenDifference compare(const GoldenPrompt& golden, const GoldenAnswer& answer,
                         const GoldenTolerance& tolerance) {
  GoldenDifference result;
  if (!answer.logits.empty()) {
    const size_t vocab = golden.logits.size() / golden.num_logit_rows;
    NIBBLE_CHECK(answer.logits.size() == golden.ids.size() * vocab, "{} logits of {} tokens, vocabulary {}",
                 answer.logits.size(), golden.ids.size(), vocab);
    compare_logits(golden, answer.logits, vocab, tolerance.tied_margin, result);
    double top_gap = tolerance.top_gap, num_other_experts = 0;
    for (size_t t = 0; t < golden.top_ids.size() / kGoldenTop; ++t) {
      if (golden.router_margin[t] <= tolerance.router_margin) {
        top_gap = tolerance.top_gap_after_tie;
        continue;
      }
      const TopDifference top = compare_top(golden, t, answer.logits.subspan(t * vocab, vocab), top_gap);
      result.num_top_compared += top.num_compared;
      result.num_top_wrong += top.num_wrong;
      result.num_positions_wrong += top.num_wrong > 0;
      num_other_experts += other_expert_probability(golden.router_margin[t], tolerance);
    }
    result.most_positions_wrong = most_expected(num_other_experts);
  }
  if (!answer.greedy.empty()) {
    NIBBLE_CHECK(answer.greedy.size() == golden.greedy.size(), "{} tokens, {} golden", answer.greedy.size(),
                 golden.greedy.size());
    const auto at = std::mismatch(answer.greedy.begin(), answer.greedy.end(), golden.greedy.begin()).first;
    if (at != answer.greedy.end()) {
      result.greedy_at = static_cast<int>(at - answer.greedy.begin());
      result.greedy_gap = golden.greedy_gap[*result.greedy_at];
    }
  }
  if (!answer.hidden.empty()) {
    NIBBLE_CHECK(answer.hidden.size() == golden.hidden.size(), "{} elements, {} golden", answer.hidden.size(),
                 golden.hidden.size());
    for (size_t i = 0; i < golden.hidden.size(); ++i)
      keep_worst(result.max_hidden, std::abs(double{answer.hidden[i]} - double{golden.hidden[i]}));
  }
  return result;
}

bool is_within(const GoldenDifference& difference, const GoldenTolerance& tolerance) {
  return difference.relative_l2 <= tolerance.relative_l2 && difference.tied_l2 <= tolerance.tied_l2 &&
         difference.max_hidden <= tolerance.hidden &&
         difference.num_positions_wrong <= difference.most_positions_wrong &&
         (!difference.greedy_at || difference.greedy_gap <= tolerance.greedy_gap);
}

// Adjacent tokens of the top 5 are compared if their logits differ by more than four standard deviations of
// the error measured at this position. About one pair in 30,000 still swaps. Near ties: if errors of router
// logits are uniform up to the margin M of near ties, a router with margin m chooses another expert with
// probability (1 - m / M) / 2. The sum of these probabilities is the expected number of positions with
// another expert. That number and three standard deviations more are allowed.
PositionsDifference compare_positions(const GoldenPrompt& golden, std::span<const float> logits,
                                      const GoldenTolerance& tolerance) {
  const size_t num_positions = golden.ids.size(), vocab = golden.logits.size() / num_positions;
  NIBBLE_CHECK(golden.num_logit_rows == std::ssize(golden.ids) && logits.size() == golden.logits.size(),
               "{} logits, {} golden of {} positions", logits.size(), golden.logits.size(),
               golden.num_logit_rows);
  PositionsDifference result;
  double expected = 0;  // number of positions with another expert
  for (size_t t = 0; t < num_positions; ++t) {
    const auto ours = logits.subspan(t * vocab, vocab);
    const RowError error =
        compare_row(std::span(golden.logits).subspan(t * vocab, vocab), ours, result.max_logit);
    const TopDifference top = compare_top(golden, t, ours, 4 * std::sqrt(2) * error.root_mean_square);
    result.num_top_compared += top.num_compared;
    result.num_top_wrong += top.num_wrong;
    const double margin = golden.router_margin[t] / tolerance.router_margin;
    if (margin <= 1) expected += (1 - margin) / 2;
    if (margin <= 1 && error.relative_l2 > tolerance.relative_l2)
      ++result.num_other_experts;
    else
      keep_worst(result.relative_l2, error.relative_l2);
  }
  result.most_other_experts = most_expected(expected);
  return result;
}

bool is_within(const PositionsDifference& difference, const GoldenTolerance& tolerance) {
  return difference.relative_l2 <= tolerance.relative_l2 && difference.num_top_wrong == 0 &&
         difference.num_other_experts <= difference.most_other_experts;
}

}  // namespace nibble
