// Derives how far a correct implementation may differ from golden data, from the values that it rounds.
#include <algorithm>
#include <cmath>

#include "model/golden/golden.h"

namespace nibble {
namespace {

// The relative error of keys and values is at most u = 2^-8. In the attention of one layer, with scores s_j
// of size up to S, values have the relative error u and scores the error u S. So weights have the relative
// error 2 u S, and the output at most (1 + 2 S) u; on average about a third of that, because rounding errors
// are uniform. Errors of layers add up like independent ones, hence sqrt(L). With S = 2 the relative error of
// a row of logits is 5 u sqrt(L) / 3 (1.6e-2 for 6 layers; the worst measured is 1.05e-2).
// The error of a single logit is that share of the logits' root mean square. The error of the difference of
// two logits, at three standard deviations, is 3 sqrt(2) times as much.
// Errors of this size can change a router's choice if its margin is below 1e-2, and another expert moves
// log-probabilities by up to 0.4, independent of later rounding (both measured with bfloat16 arithmetic on
// the miniature: tests/golden/README.md). Golden data do not record router margins of continuations.
constexpr double kCacheError{1 + 2 * 2.0};  // bound of the error of a layer's attention, in units of u
constexpr double kOtherExpert{0.4};         // the most that another expert moves a log-probability

// `other_expert`: the most that another expert moves the difference of two log-probabilities.
GoldenTolerance rounding_tolerance(const Config& config, const GoldenSet& golden, double layer_error,
                                   double other_expert) {
  constexpr double kRounding{0x1p-8};
  double squares = 0, count = 0;
  for (const GoldenPrompt& prompt : golden.prompts) {
    for (const float logit : prompt.logits) squares += double{logit} * double{logit};
    count += static_cast<double>(prompt.logits.size());
  }
  GoldenTolerance tolerance;
  tolerance.relative_l2 = layer_error * kRounding * std::sqrt(config.num_layers) / 3;
  tolerance.router_margin = 1e-2;
  const double size = std::sqrt(squares / std::max(count, 1.0));
  tolerance.top_gap = 3 * std::sqrt(2) * tolerance.relative_l2 * size;
  tolerance.top_gap_after_tie = tolerance.greedy_gap = std::hypot(tolerance.top_gap, other_expert);
  tolerance.tied_l2 = std::hypot(tolerance.relative_l2, kOtherExpert / size);
  return tolerance;
}

}  // namespace

GoldenTolerance bf16_cache_tolerance(const Config& config, const GoldenSet& golden) {
  GoldenTolerance tolerance = rounding_tolerance(config, golden, kCacheError, kOtherExpert);
  tolerance.tied_l2 = tolerance.relative_l2;  // the rounding is so small that near ties rarely change
  return tolerance;
}

// Besides keys and values, a layer rounds the two normed inputs, the queries, the attention weights, the
// attention output, and the experts' inner activations: six errors of one u each, independent of each other
// and of the cache's. Many near ties then choose other experts: both log-probabilities may move by 0.4.
GoldenTolerance bf16_tolerance(const Config& config, const GoldenSet& golden) {
  return rounding_tolerance(config, golden, std::sqrt(kCacheError * kCacheError + 6),
                            std::sqrt(2) * kOtherExpert);
}

// The error of an int8 element is at most 1/254 of the largest element in its block of 32, about u of it, and
// the largest is at most sqrt(32) times the block's root mean square. So the relative error of a vector is at
// most sqrt(32) u, on average a third of it, as above. (The largest of 32 normal numbers is 2.1 to 2.5 times
// the root mean square: this allows about twice the expected error.)
// A layer's experts round two such vectors: their input, and the activations between up and down. The
// attention output is one more. The error of the input of q, k and v passes unchanged into the values. An
// error of queries or keys has a random direction in D dimensions, of which a score sees one: it changes
// scores by S / sqrt(D) of it, and weights by twice as much. The input of the unembedding is rounded once,
// not in each layer.
// The router margin was measured for BF16's 2^-9 and grows with the error. At a near tie, one of K experts
// may differ in one of the 2 L terms that the residual stream sums: sqrt(2) / K / sqrt(2 L) of the stream, if
// all terms had the same size. Three times that is allowed. This is an estimate, not a bound: it applies to
// rows that are near ties, and golden data do not record by how much.
GoldenTolerance int8_tolerance(const Config& config, const GoldenSet& golden, const Int8Products& products) {
  constexpr double kScore{2};
  // Upper bound of the square of a block's largest element if the mean square is 1.
  constexpr double kLargest{32};
  double num_roundings = 0;  // rounded vectors in a layer
  if (products.experts) num_roundings += 2;
  if (products.attention_output) num_roundings += 1;
  if (products.qkv) num_roundings += 1 + 2 * 4 * kScore * kScore / config.head_dim;
  if (products.unembedding) num_roundings += 1.0 / config.num_layers;
  if (num_roundings == 0) return bf16_cache_tolerance(config, golden);
  const double layer_error = std::sqrt(kCacheError * kCacheError + num_roundings * kLargest);
  GoldenTolerance tolerance = rounding_tolerance(config, golden, layer_error, std::sqrt(2) * kOtherExpert);
  tolerance.router_margin *= std::sqrt(kLargest);
  tolerance.tied_l2 = 3 / (config.experts_per_token * std::sqrt(config.num_layers));
  return tolerance;
}

// Besides the errors of bf16_tolerance, a layer's experts round two vectors: their input, and the activations
// between up and down. Half a unit in the last place is at most 2^-4 of a number in E4M3 (three mantissa
// bits), and 2^-2 in E2M1. (A scale that covers the block's largest element leaves fewer bits to smaller
// ones, but these weigh less in a sum.) Router margins and near ties as in int8_tolerance.
GoldenTolerance block_scaled_tolerance(const Config& config, const GoldenSet& golden, double error) {
  const double in_roundings = error / 0x1p-8;
  const double layer_error = std::sqrt(kCacheError * kCacheError + 6 + 2 * in_roundings * in_roundings);
  GoldenTolerance tolerance = rounding_tolerance(config, golden, layer_error, std::sqrt(2) * kOtherExpert);
  tolerance.router_margin *= in_roundings;
  tolerance.tied_l2 = 3 / (config.experts_per_token * std::sqrt(config.num_layers));
  return tolerance;
}

// Each side's error is within the bound, and both round the same weights at the same places. Errors cancel
// where both round the same way: an element differs only if its two inputs are on different sides of a
// boundary between two codes. The worst case, independent errors, gives sqrt(2) times one error.
GoldenTolerance tolerance_of_both_rounded(GoldenTolerance tolerance) {
  tolerance.relative_l2 *= std::sqrt(2);
  tolerance.router_margin *= std::sqrt(2);
  return tolerance;
}

}  // namespace nibble
