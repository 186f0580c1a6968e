// Sampling parameters and results in device memory.
#pragma once

#include <cstdint>

#include "backend/cuda/input/row_input.h"

namespace nibble::cuda {

inline constexpr int kMaxVocab{1 << 19};  // up to this size, 64 bits can hold sample.cu's sum of weights
// Equals kMaxLogprobs in the host's headers, which kernels do not include.
inline constexpr int kMaxTop{20};

inline constexpr uint64_t kAllTokens{~uint64_t{0}};

// A token whose logit is changed by a bias or by penalties.
struct Adjustment {
  int32_t token;
  float bias;
  int32_t count;  // occurrences of the token in the output; -1: no penalties apply
  float raw;      // the model's logit, saved by the device while the adjusted logit replaces it
};

// The position of a token to sample. If the host does not know the position, it gives the index of the step's
// row that the token follows, because the device knows that row's position.
struct SamplePosition {
  int32_t bits;  // the position, or -1 - index of the row

  static constexpr SamplePosition at(int position) { return {position}; }
  static constexpr SamplePosition after_row(int row) { return {-1 - row}; }

  constexpr bool is_known() const { return bits >= 0; }
  constexpr int position() const { return bits; }         // call it only if is_known()
  constexpr int row_before() const { return -1 - bits; }  // call it only if not is_known()
};

struct SampleRow {
  uint64_t seed;
  // top_p in units of 2^-64, rounded up, minus 1: sums above this share of the total reach top_p.
  uint64_t top_p;
  Adjustment* adjustments;  // [num_adjustments]: at most one per token
  const uint32_t* mask;     // [V / 32, rounded up]: one bit per allowed token; null: all are allowed
  int32_t num_adjustments;
  // Row of the step whose token, not yet known to the host, counts as one more output token; -1: none. If
  // set, `adjustments` has space for one more entry, in case the token has none yet. (OptionalIndex would
  // change the machine code of sample_kernel.)
  int32_t follows;
  SamplePosition position;  // position of the token to sample
  int32_t top_k;            // only this number of likeliest tokens may be sampled; 0: all tokens
  int32_t num_logprobs;     // number of likeliest tokens to report, at most kMaxTop; -1: no logprobs
  float temperature;        // negative: no token is sampled for the row
  float min_p, repetition_penalty, presence_penalty, frequency_penalty;
};

struct TopLogprob {
  int32_t token;
  float logprob;
};
struct SampleResult {
  int32_t token;  // -1: no token
  float logprob;  // log-probability of `token`; valid if SampleRow::num_logprobs >= 0
  int32_t num_top;
  TopLogprob top[kMaxTop];
};

}  // namespace nibble::cuda
