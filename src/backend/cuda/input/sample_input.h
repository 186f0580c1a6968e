// Sampling parameters and results in device memory. CUDA code includes this header, so it must compile as
// C++17.
#pragma once

#include <cstdint>

#include "backend/cuda/input/row_input.h"

namespace nibble::cuda {

// Largest vocabulary. With more tokens, the sum of all tokens' weights in sample.cu could exceed 64 bits.
inline constexpr int kMaxVocab{1 << 19};
// Largest number of log-probabilities per token. Equals kMaxLogprobs in the host's headers, which kernels do
// not include.
inline constexpr int kMaxTop{20};

// SampleRow::top_p of a row that keeps all tokens.
inline constexpr uint64_t kAllTokens{~uint64_t{0}};

// A token whose logit is changed, by a bias or by penalties, before a row's token is sampled.
struct Adjustment {
  int32_t token;
  float bias;
  int32_t count;  // how often the token was output; 0: it is in the prompt only; -1: no penalties apply
  float raw;      // the model's logit, saved by the device while the adjusted logit replaces it
};

// The position of a token to sample. If the host does not know the position, SamplePosition instead holds the
// index of the row after which the token comes: the device knows the position of that row.
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
  // The option top_p, as ceil(top_p * 2^64) - 1. The likeliest tokens are kept until their share of the total
  // weight, times 2^64, exceeds this number. Then their share is at least top_p.
  uint64_t top_p;
  Adjustment* adjustments;  // [num_adjustments]: at most one per token
  const uint32_t* mask;     // [V / 32, rounded up]: one bit per allowed token; null: all are allowed
  int32_t num_adjustments;
  // Index of the first row of the sequence's run, if the host does not know that row's token yet because the
  // previous step samples it; -1: the host knows it, or there are no penalties. For penalties, the device
  // counts this token as one more output token. If `follows` is set, `adjustments` has space for one more
  // entry, which the device uses if no other entry is for this token.
  int32_t follows;
  SamplePosition position;  // position of the token to sample
  int32_t top_k;            // number of likeliest tokens that may be sampled; 0: all tokens
  int32_t num_logprobs;     // number of likeliest tokens to report, at most kMaxTop; -1: no logprobs
  float temperature;        // 0: take the likeliest token; negative: sample no token
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
