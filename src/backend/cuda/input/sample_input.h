// Sampling parameters and results in device memory.
#pragma once

#include <cstdint>

#include "backend/cuda/input/row_input.h"

namespace nibble::cuda {

inline constexpr int kMaxVocab{1 << 19};  // for this number, sample.cu can add up weights in 64 bits
// Equals kMaxLogprobs of the host's headers, which kernels do not include.
inline constexpr int kMaxTop{20};

inline constexpr uint64_t kAllTokens{~uint64_t{0}};

// A token whose logit is changed by a bias or by penalties.
struct Adjustment {
  int32_t token;
  float bias;
  int32_t count;  // occurrences of the token in the output; -1: no penalty applies
  float raw;      // written by the device: the model's logit, which the adjusted one replaces meanwhile
};

// The position of a token to sample. If the host does not know it, the number of the step's row that the
// token follows, whose position the device knows.
struct SamplePosition {
  int32_t bits;  // the position, or -1 - number of the row

  static constexpr SamplePosition at(int position) { return {position}; }
  static constexpr SamplePosition after_row(int row) { return {-1 - row}; }

  constexpr bool is_known() const { return bits >= 0; }
  constexpr int position() const { return bits; }         // valid only if is_known()
  constexpr int row_before() const { return -1 - bits; }  // valid only if not is_known()
};

struct SampleRow {
  uint64_t seed;
  // top_p in units of 2^-64, rounded up, minus 1: a sum above this share of the total reaches top_p.
  uint64_t top_p;
  Adjustment* adjustments;  // [num_adjustments]: at most one per token
  const uint32_t* mask;     // [V / 32, rounded up]: one bit per allowed token; null: all are allowed
  int32_t num_adjustments;
  // Row of the step whose token, not yet known to the host, counts as one more output token; -1: none. If
  // set, `adjustments` has space for one more entry, for the case that the token has none. An OptionalIndex
  // would change the machine code of sample_kernel.
  int32_t follows;
  SamplePosition position;  // position of the token to sample
  int32_t top_k;            // number of likeliest tokens that may be sampled; 0: all
  int32_t num_logprobs;     // number of likeliest tokens to report, at most kMaxTop; -1: no log-probabilities
  float temperature;        // negative: the row samples no token
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
