// Golden data: results of another implementation (logits, greedy continuations, hidden states for some prompts), and
// their comparison with nibble's.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/token.h"
#include "model/config.h"

namespace nibble {

inline constexpr int kGoldenTop{5};

// An empty vector: this was not recorded. T: tokens of the prompt; V: vocabulary; G: tokens of the continuation.
struct GoldenPrompt {
  std::string name;
  std::string computed_by;
  std::vector<TokenId> ids;   // [T]
  std::vector<float> logits;  // [num_logit_rows, V]: the last num_logit_rows positions
  int num_logit_rows{0};
  std::vector<TokenId> top_ids;     // [T, 5]: the likeliest next tokens, descending
  std::vector<float> top_logprobs;  // [T, 5]
  std::vector<TokenId> greedy;      // [G]: goes on past stop tokens
  std::vector<float> greedy_gap;    // [G]: best logit less the second
  // [T]: the least distance, over the layers, between the last expert chosen and the first not chosen
  std::vector<float> router_margin;
  // [L + 2, num_hidden_rows, H]: embeddings, output of each layer, after the last norm; at the last num_hidden_rows
  // positions
  std::vector<float> hidden;
  int num_hidden_rows{0};
};

struct GoldenSet {
  int vocab{0};
  std::vector<GoldenPrompt> prompts;
};

// `file`: the JSON index of a set (its tensors lie beside it in a safetensors file of the same stem), or a safetensors
// file with ids0, logits0 (every position), ids1, logits1, ... Throws InputError.
GoldenSet read_golden(const std::filesystem::path& file);

// The results of an implementation under test for one prompt. Empty: not to be compared.
struct GoldenAnswer {
  std::span<const float> logits;    // [T, V]: every position
  std::span<const TokenId> greedy;  // [G]
  std::span<const float> hidden;    // as in GoldenPrompt
};

// Two correct implementations may differ by this much. The defaults are for float32 arithmetic.
struct GoldenTolerance {
  double relative_l2{1e-4};  // relative error of a row of logits
  double tied_l2{1e-4};      // the same at a position that is a near tie
  double hidden{1e-4};       // of any element of a hidden state
  // a near tie: a position with less may take another expert; its likeliest tokens are not compared
  double router_margin{1e-4};
  double top_gap{1e-3};  // tokens closer than this (in log-probability) may change places among the likeliest
  // the same at positions that a near tie precedes: they see its keys and values
  double top_gap_after_tie{1e-3};
  double greedy_gap{0};  // a continuation may differ from the golden one only where its gap is at most this
};

// For a backend that keeps keys and values in BF16 and is otherwise exact to float32. golden_tolerance.cpp derives it from the
// number of layers and the size of the golden logits.
GoldenTolerance bf16_cache_tolerance(const Config& config, const GoldenSet& golden);
// For a backend that also rounds the inputs of matrix products to BF16; its residual stream is float32.
GoldenTolerance bf16_tolerance(const Config& config, const GoldenSet& golden);
// For a backend with a BF16 cache that takes the inputs of some products in int8, with a scale for each 32. It allows
// for no error of the weights: golden data must come from the same ones.
struct Int8Products {
  bool qkv{false}, attention_output{false}, experts{false}, unembedding{false};
};
GoldenTolerance int8_tolerance(const Config& config, const GoldenSet& golden, const Int8Products& products);
// For a backend as that of bf16_tolerance whose experts take inputs of MXFP8 or MXFP4, a number of which is off by as much as this share
// of itself.
inline constexpr double kMxfp8Error{0x1p-4}, kMxfp4Error{0x1p-2};
GoldenTolerance block_scaled_tolerance(const Config& config, const GoldenSet& golden, double error);
// For golden data that round as the implementation under test does, which has this tolerance from exact ones.
GoldenTolerance tolerance_of_both_rounded(GoldenTolerance tolerance);

struct GoldenDifference {
  // |answer - golden| / |golden| over a row of logits, the worst row that is no near tie
  double relative_l2{0};
  double tied_l2{0};        // the worst row that is a near tie
  double max_logit{0};      // the largest difference of a logit
  double max_hidden{0};     // the largest difference of an element of a hidden state
  int num_top_compared{0};  // places of the top 5, over all positions, that the tolerance allows to compare
  int num_top_wrong{0};     // those among them that hold another token
  std::optional<int> greedy_at;  // first token of the continuation that differs
  float greedy_gap{0};           // the golden gap at greedy_at
};

GoldenDifference compare(const GoldenPrompt& golden, const GoldenAnswer& answer,
                         const GoldenTolerance& tolerance);
bool is_within(const GoldenDifference& difference, const GoldenTolerance& tolerance);

// The difference from golden data that have the logits of every position and were made by rounding in the same places
// (reference/rounded_golden.h).
struct PositionsDifference {
  double relative_l2{0};  // the worst row of logits that no other expert explains
  double max_logit{0};
  int num_other_experts{0};  // near ties with a larger error than the tolerance allows elsewhere
  int most_other_experts{0};
  int num_top_compared{0}, num_top_wrong{0};  // places of the top 5
};
// `logits`: [T, V], `tolerance` is that of both rounded.
PositionsDifference compare_positions(const GoldenPrompt& golden, std::span<const float> logits,
                                      const GoldenTolerance& tolerance);
bool is_within(const PositionsDifference& difference, const GoldenTolerance& tolerance);

}  // namespace nibble
