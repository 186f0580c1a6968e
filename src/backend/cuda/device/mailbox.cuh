// A mailbox in memory: CTAs store float32 words there while others wait for them. A word that is 0 has not come, so a zero is stored as -0, which
// changes no sum: these begin with 0. Each word has one reader, which puts 0 back.
#pragma once

#include "backend/cuda/ptx/load.cuh"

namespace nibble::cuda {

__device__ inline bool has_come(float word) { return __float_as_uint(word) != 0; }
__device__ inline bool has_come(const float4& words) {
  return has_come(words.x) && has_come(words.y) && has_come(words.z) && has_come(words.w);
}
__device__ inline float as_word(float value) { return has_come(value) ? value : -0.0f; }
// Asks once more for what has not come. Loads that follow one another are under way together if nobody looks at their words in between.
template <typename T>
__device__ inline void ask_again(T& words, const T* from) {
  if (!has_come(words)) words = load_relaxed(from);
}

}  // namespace nibble::cuda
