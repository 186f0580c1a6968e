// What a step tells the device of how its tokens are chosen, and what comes back; both in the device's memory.
#pragma once

#include <cstdint>

namespace nibble::cuda {

inline constexpr int kMaxVocab{1 << 19};  // sample.cu adds up weights in 64 bits
inline constexpr int kMaxTop{20};         // kMaxLogprobs, where host headers are not read

inline constexpr uint64_t kAllTokens{~uint64_t{0}};

// A token whose logit a bias or penalties change.
struct Adjustment {
  int32_t token;
  float bias;
  int32_t count;  // in the output; -1: no penalty is for it
  float raw;      // the model's own logit, kept by the device while the changed one stands in its place
};

// Of an output row: SampleParams, and what they refer to.
struct SampleRow {
  uint64_t seed;
  uint64_t top_p;  // of 2^64, rounded up, less 1: a sum above that of the whole reaches it; kAllTokens: 1
  Adjustment* adjustments;  // each token once
  int32_t num_adjustments;
  int32_t position;      // of the token that is to be chosen
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
  float logprob;  // of it, where num_logprobs >= 0
  int32_t num_top;
  TopLogprob top[kMaxTop];
};

}  // namespace nibble::cuda
