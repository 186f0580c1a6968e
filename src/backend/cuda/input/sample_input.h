// Sampling parameters and results in device memory.
#pragma once

#include <cstdint>

namespace nibble::cuda {

inline constexpr int kMaxVocab{1 << 19};  // a limit because sample.cu adds up weights in 64 bits
// The same as kMaxLogprobs of the host's headers, which kernels do not include.
inline constexpr int kMaxTop{20};

inline constexpr uint64_t kAllTokens{~uint64_t{0}};

// A token whose logit is changed by a bias or by penalties.
struct Adjustment {
  int32_t token;
  float bias;
  int32_t count;  // occurrences in the output; -1: no penalty applies
  float raw;      // written by the device: the model's own logit, while the changed one replaces it
};

struct SampleRow {
  uint64_t seed;
  // top_p in units of 2^-64, rounded up, minus 1: a sum above this share of the total reaches top_p.
  uint64_t top_p;
  Adjustment* adjustments;  // each token once
  const uint32_t* mask;     // bits of the allowed tokens, 32 per word; null: all are allowed
  int32_t num_adjustments;
  // The step's row whose token, which the host does not know yet, counts as one more output token; -1: none.
  // The row's adjustments are followed by space for one more, in case that token has none.
  int32_t follows;
  // Position of the token to sample. -1 - n: one after that of the step's row n, if only the device knows it.
  int32_t position;
  int32_t top_k;         // 0: no limit
  int32_t num_logprobs;  // -1: none; at most kMaxTop
  float temperature;     // negative: no token is chosen
  float min_p, repetition_penalty, presence_penalty, frequency_penalty;
};

struct TopLogprob {
  int32_t token;
  float logprob;
};
struct SampleResult {
  int32_t token;  // -1: none
  float logprob;  // log-probability of `token`; valid if num_logprobs >= 0
  int32_t num_top;
  TopLogprob top[kMaxTop];
};

}  // namespace nibble::cuda
