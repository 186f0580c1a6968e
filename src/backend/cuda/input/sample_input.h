// Sampling parameters and results in device memory.
#pragma once

#include <cstdint>

#include "backend/cuda/input/row_input.h"

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

// The position of a token to be sampled: known to the host, or only to the device, which knows the position
// of the row before it.
struct SamplePosition {
  int32_t bits;  // the position, or -1 - row

  static constexpr SamplePosition at(int position) { return {position}; }
  static constexpr SamplePosition after_row(int row) { return {-1 - row}; }  // of the step

  constexpr bool is_known() const { return bits >= 0; }
  constexpr int position() const { return bits; }         // only if it is known
  constexpr int row_before() const { return -1 - bits; }  // only if it is not
};

// The SampleParams of an output row, and its adjustments.
struct SampleRow {
  uint64_t seed;
  // top_p in units of 2^-64, rounded up, minus 1: a sum above this share of the total reaches top_p.
  // kAllTokens: top_p is 1.
  uint64_t top_p;
  Adjustment* adjustments;  // each token once
  const uint32_t* mask;     // bits of the allowed tokens, 32 per word; null: all are allowed
  int32_t num_adjustments;
  // The row of the step whose token counts as one more output token, because the host does not know it yet;
  // -1: none. After the row's adjustments there is space for one more, in case that token has none. No
  // OptionalIndex, which changes the machine code of sample_kernel.
  int32_t follows;
  SamplePosition position;
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
