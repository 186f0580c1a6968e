// Sampling parameters and results as they lie in device memory.
#pragma once

#include <cstdint>

namespace nibble::cuda {

inline constexpr int kMaxVocab{1 << 19};  // limit: sample.cu adds up weights in 64 bits
inline constexpr int kMaxTop{
    20};  // the same as kMaxLogprobs of the host's headers, which kernels do not include

inline constexpr uint64_t kAllTokens{~uint64_t{0}};

// A token whose logit a bias or penalties change.
struct Adjustment {
  int32_t token;
  float bias;
  int32_t count;  // occurrences in the output; -1: no penalty applies
  float raw;      // written by the device: the model's own logit, while the changed one stands in its place
};

// The SampleParams of an output row, and its adjustments.
struct SampleRow {
  uint64_t seed;
  uint64_t
      top_p;  // in units of 2^-64, rounded up, less 1: a sum above this share of the whole reaches top_p; kAllTokens: 1
  Adjustment* adjustments;  // each token once
  const uint32_t* mask;     // bits of the tokens that may be chosen, 32 a word; null: all may be
  int32_t num_adjustments;
  // The step's row whose token counts as one more of the output, because the host does not know it yet; -1: none. Behind the row's
  // adjustments there is room for one more, in case that token has none.
  int32_t follows;
  int32_t
      position;  // of the token to be chosen; -1 - n: the one behind the step's row n, which the device knows
  int32_t top_k;         // 0: all
  int32_t num_logprobs;  // -1: none; at most kMaxTop
  float temperature;     // negative: no token is wanted
  float min_p, repetition_penalty, presence_penalty, frequency_penalty;
};

struct TopLogprob {
  int32_t token;
  float logprob;
};
struct SampleResult {
  int32_t token;  // -1: none
  float logprob;  // of the token, if num_logprobs >= 0
  int32_t num_top;
  TopLogprob top[kMaxTop];
};

}  // namespace nibble::cuda
