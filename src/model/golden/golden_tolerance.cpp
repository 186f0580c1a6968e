// Derives the tolerances of golden.h from the roundings of a backend.
#include <algorithm>
#include <cmath>

#include "model/golden/golden.h"

namespace nibble {
namespace {

// The relative error of keys and values rounded to BF16 is at most u = 2^-8. In the attention of one layer,
// if scores s_j are at most S, values have the relative error u and scores the error u S. So attention
// weights have the relative error 2 u S, and the output at most (1 + 2 S) u. The average error is about a
// third of that, because rounding errors are uniform. Errors of layers add up like independent ones, hence
// sqrt(L). With S = 2 the relative error of a row of logits is 5 u sqrt(L) / 3 (1.6e-2 for 6 layers; the
// worst measured is 1.05e-2).
// The error of a single logit is assumed to be this relative error times the root mean square of the logits.
// For the difference of two logits, three standard deviations are 3 sqrt(2) times as much.
// Errors of this size often change a router's choice if its margin is below 1e-2. Another expert moves
// log-probabilities by up to 0.4, independent of later rounding. Both were measured with bfloat16 arithmetic
// on the miniature (tests/golden/README.md). Golden data have no router margins of continuations, so
// greedy_gap always allows for another expert.
constexpr double kCacheError{1 + 2 * 2.0};  // limit of the relative error of attention, in units of u
constexpr double kOtherExpert{0.4};         // largest change of a log-probability if another expert is chosen

// `layer_error`: limit of the relative error of one layer's output, in units of u = 2^-8. `other_expert`: the
// most by which the choice of another expert changes the difference of two tokens' log-probabilities.
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
  tolerance.router_margin = tolerance.tied_margin = 1e-2;
  const double size = std::sqrt(squares / std::max(count, 1.0));
  tolerance.top_gap = 3 * std::sqrt(2) * tolerance.relative_l2 * size;
  tolerance.top_gap_after_tie = tolerance.greedy_gap = std::hypot(tolerance.top_gap, other_expert);
  return tolerance;
}

// Returns the allowed relative error of a row of logits if a router chose another expert. The residual stream
// is the sum of 2 L terms of independent directions, one from attention and one from the experts per layer.
// If all have the same size, a term is 1 / sqrt(2 L) of the stream. One of its K experts is replaced: the
// old one, 1 / K of the term, is missing, and the new one is added, which is sqrt(2) / K of the term. So the
// stream changes by sqrt(2) / K / sqrt(2 L) = 1 / (K sqrt(L)); three times that is allowed. It is an
// estimate, not a bound, because experts differ in size and weight.
double other_expert_l2(const Config& config) {
  return 3 / (config.experts_per_token * std::sqrt(config.num_layers));
}

}  // namespace

GoldenTolerance bf16_cache_tolerance(const Config& config, const GoldenSet& golden) {
  GoldenTolerance tolerance = rounding_tolerance(config, golden, kCacheError, kOtherExpert);
  tolerance.tied_l2 = tolerance.relative_l2;  // errors this small rarely change the choice at a near tie
  return tolerance;
}

// Besides keys and values, a layer rounds the two normed inputs, the queries, the attention weights, the
// attention output, and the experts' inner activations: six more errors of one u each, all independent. Many
// near ties then choose other experts, so both of two compared log-probabilities may move by 0.4.
// These roundings change the margin of a router by 6.8e-3 (standard deviation over 530 positions of the
// miniature with margins of 0.012 to 0.1; tests/golden/README.md). Rows of logits with a margin of at most
// three times that may have another expert, so their limit is other_expert_l2().
//
// The top 5 is compared from a margin of 1e-2 on. If errors of margins are normal, 0.4 % of those positions
// have another expert: eight of the prompt of 2,500 tokens, 0.3 of a prompt of 80. Entries of the top 5 may
// be wrong at these positions. On GPUs, 0 to 3 of 2,010 entries of the long prompt were wrong.
constexpr double kMarginError{6.8e-3};

GoldenTolerance bf16_tolerance(const Config& config, const GoldenSet& golden) {
  GoldenTolerance tolerance = rounding_tolerance(config, golden, std::sqrt(kCacheError * kCacheError + 6),
                                                 std::sqrt(2) * kOtherExpert);
  tolerance.tied_margin = 3 * kMarginError;
  tolerance.tied_l2 = other_expert_l2(config);
  tolerance.margin_error = kMarginError;
  return tolerance;
}

// The error of an int8 element is at most 1/254 (about u) of the largest element of its block of 32. That
// element is at most sqrt(32) times the block's root mean square. So the relative error of a vector is at
// most sqrt(32) u, and on average a third of that. (The largest of 32 normal numbers is 2.1 to 2.5 times the
// root mean square, so this allows about twice the expected error.)
// A layer's experts round two such vectors: their input, and the activations between up and down. The
// attention output is another rounded vector. The error of the input of q, k and v passes unchanged into the
// values. An error of queries or keys has a random direction in D dimensions; only its component along the
// other vector changes a score, by S / sqrt(D) times the error, and attention weights by twice as much. The
// input of the unembedding is rounded once, not in each layer.
// The error of router margins was measured with BF16's error u, and grows in proportion.
GoldenTolerance int8_tolerance(const Config& config, const GoldenSet& golden, const Int8Products& products) {
  constexpr double kScore{2};
  // A block's largest element, squared, is at most 32 times the block's mean square.
  constexpr double kLargest{32};
  double num_roundings = 0;  // number of rounded vectors in a layer
  if (products.experts) num_roundings += 2;
  if (products.attention_output) num_roundings += 1;
  if (products.qkv) num_roundings += 1 + 2 * 4 * kScore * kScore / config.head_dim;
  if (products.unembedding) num_roundings += 1.0 / config.num_layers;
  if (num_roundings == 0) return bf16_cache_tolerance(config, golden);
  const double layer_error = std::sqrt(kCacheError * kCacheError + num_roundings * kLargest);
  GoldenTolerance tolerance = rounding_tolerance(config, golden, layer_error, std::sqrt(2) * kOtherExpert);
  tolerance.router_margin *= std::sqrt(kLargest);
  tolerance.tied_margin = tolerance.router_margin;
  tolerance.tied_l2 = other_expert_l2(config);
  return tolerance;
}

// Besides the errors of bf16_tolerance, a layer's experts round two vectors: their input, and the activations
// between up and down. Half a unit in the last place is at most 2^-4 of a number in E4M3 (three mantissa
// bits), and 2^-2 in E2M1. (A scale that covers the block's largest element leaves fewer bits to smaller
// ones, but these weigh less in a sum.) Router margins and near ties are treated as in int8_tolerance.
GoldenTolerance block_scaled_tolerance(const Config& config, const GoldenSet& golden, double error) {
  const double in_roundings = error / 0x1p-8;
  const double layer_error = std::sqrt(kCacheError * kCacheError + 6 + 2 * in_roundings * in_roundings);
  GoldenTolerance tolerance = rounding_tolerance(config, golden, layer_error, std::sqrt(2) * kOtherExpert);
  tolerance.router_margin *= in_roundings;
  tolerance.tied_margin = tolerance.router_margin;
  tolerance.tied_l2 = other_expert_l2(config);
  tolerance.margin_error = kMarginError * in_roundings;
  return tolerance;
}

// Both sides have errors within `tolerance`, and round the same weights at the same places. Where both round
// a value the same way, the errors cancel: an element differs only if its two inputs are on different sides
// of a rounding boundary. In the worst case the errors are independent and add up to sqrt(2) times one error.
GoldenTolerance tolerance_of_both_rounded(GoldenTolerance tolerance) {
  tolerance.relative_l2 *= std::sqrt(2);
  tolerance.router_margin *= std::sqrt(2);
  tolerance.tied_margin *= std::sqrt(2);
  return tolerance;
}

}  // namespace nibble
