// Golden data: results of another implementation (logits, greedy continuations, hidden states for some
// prompts), and their comparison with nibble's results.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/tokens/token.h"
#include "model/config.h"

namespace nibble {

inline constexpr int kGoldenTop{5};

// Results for one prompt; an empty member was not recorded. T: tokens of the prompt, V: vocabulary, G: tokens
// of the continuation.
struct GoldenPrompt {
  std::string name;
  std::string computed_by;
  std::vector<TokenId> ids;   // [T]: tokens
  std::vector<float> logits;  // [num_logit_rows, V]: the last num_logit_rows positions
  int num_logit_rows{0};
  std::vector<TokenId> top_ids;     // [T, 5]: the likeliest next tokens, descending
  std::vector<float> top_logprobs;  // [T, 5]: their log-probabilities
  std::vector<TokenId> greedy;      // [G]: greedy continuation, not ended by stop tokens
  std::vector<float> greedy_gap;    // [G]: largest logit minus the second largest
  // [T]: minimum over layers of the router's margin: last chosen logit minus the largest logit not chosen.
  std::vector<float> router_margin;
  // [L + 2, num_hidden_rows, H] at the last positions: embeddings, outputs of the L layers, final norm.
  std::vector<float> hidden;
  int num_hidden_rows{0};
};

struct GoldenSet {
  int vocab{0};
  std::vector<GoldenPrompt> prompts;
};

// `file`: the JSON index of a set (tensors in a safetensors file of the same stem), or a safetensors file
// with ids0, logits0 (all positions), ids1, logits1, ... Throws InputError.
GoldenSet read_golden(const std::filesystem::path& file);

struct GoldenAnswer {             // results of an implementation under test; an empty member is not compared
  std::span<const float> logits;  // [T, V]: all positions
  std::span<const TokenId> greedy;  // [G]: continuation
  std::span<const float> hidden;    // same shape as GoldenPrompt::hidden
};

// Limits of the difference between two correct implementations. The defaults are for float32 arithmetic.
struct GoldenTolerance {
  double relative_l2{1e-4};  // relative error of a row of logits
  // Relative error of a row whose router margin is at most tied_margin: rounding may choose another expert.
  double tied_l2{1e-4};
  double tied_margin{1e-4};
  double hidden{1e-4};  // error of any element of a hidden state
  // Near ties are positions with a router margin of at most router_margin. Their top 5 is not compared,
  // because rounding often changes which experts are chosen. From router_margin to tied_margin that is rarer,
  // and the top 5 is compared.
  double router_margin{1e-4};
  double top_gap{1e-3};  // tokens with closer log-probabilities may swap in the top 5
  // Replaces top_gap at all positions after a near tie: they attend to the keys and values of that position.
  double top_gap_after_tie{1e-3};
  // Standard deviation of the error of a router margin; 0 if margins have no error. From it follows the
  // expected number of positions whose top 5 is compared although the router chose another expert.
  double margin_error{0};
  // A continuation may differ from the golden one only at a token whose greedy_gap is at most this.
  double greedy_gap{0};
};

// Returns the tolerance for a backend that rounds only keys and values, to BF16. golden_tolerance.cpp derives
// it.
GoldenTolerance bf16_cache_tolerance(const Config& config, const GoldenSet& golden);
// Returns the tolerance for a backend that also rounds inputs of matrix products to BF16, but not the
// residual stream.
GoldenTolerance bf16_tolerance(const Config& config, const GoldenSet& golden);
// The matrix products whose input is quantised to int8, with a scale per 32 elements. int8_tolerance() also
// covers a BF16 KV cache, but not quantised weights: golden data must be computed with the same weights.
struct Int8Products {
  bool qkv{false}, attention_output{false}, experts{false}, unembedding{false};
};
GoldenTolerance int8_tolerance(const Config& config, const GoldenSet& golden, const Int8Products& products);
// Returns the tolerance for a backend that rounds as for bf16_tolerance() and also rounds the inputs of
// experts to MXFP8 or MXFP4. `error`: largest relative error of such an input.
inline constexpr double kMxfp8Error{0x1p-4}, kMxfp4Error{0x1p-2};
GoldenTolerance block_scaled_tolerance(const Config& config, const GoldenSet& golden, double error);
// Returns the tolerance for golden data that were computed with the same roundings as the backend's.
// `tolerance`: the one for exact golden data.
GoldenTolerance tolerance_of_both_rounded(GoldenTolerance tolerance);

struct GoldenDifference {
  // Relative error |answer - golden| / |golden| of the worst row of logits with a router margin above
  // tied_margin.
  double relative_l2{0};
  double tied_l2{0};             // the same of the worst row with a margin of at most tied_margin
  double max_logit{0};           // largest difference of a logit
  double max_hidden{0};          // largest difference of an element of a hidden state
  int num_top_compared{0};       // entries of the top 5, over all positions, that were compared
  int num_top_wrong{0};          // compared entries with another token
  int num_positions_wrong{0};    // positions with at least one wrong entry
  int most_positions_wrong{0};   // limit of num_positions_wrong
  std::optional<int> greedy_at;  // index of the first differing token of the continuation
  float greedy_gap{0};           // GoldenPrompt::greedy_gap at greedy_at
};

GoldenDifference compare(const GoldenPrompt& golden, const GoldenAnswer& answer,
                         const GoldenTolerance& tolerance);
bool is_within(const GoldenDifference& difference, const GoldenTolerance& tolerance);

// Difference from golden data that have all positions and the same roundings (reference/rounded_golden.h).
struct PositionsDifference {
  double relative_l2{0};  // worst row of logits, except those in num_other_experts
  double max_logit{0};
  int num_other_experts{0};                   // near ties with an error above the tolerance
  int most_other_experts{0};                  // limit of num_other_experts
  int num_top_compared{0}, num_top_wrong{0};  // entries of the top 5: compared, and wrong ones of these
};
// Compares the logits of every position. `logits`: [T, V]. `tolerance`: see tolerance_of_both_rounded().
PositionsDifference compare_positions(const GoldenPrompt& golden, std::span<const float> logits,
                                      const GoldenTolerance& tolerance);
bool is_within(const PositionsDifference& difference, const GoldenTolerance& tolerance);

}  // namespace nibble
