// A mailbox is memory in which CTAs leave float32 words for other CTAs that poll. The bits of a word are 0
// until its value arrives. A value of +0 is therefore stored as -0: in a sum that starts with +0, both give
// the same result. A word has only one reader, which resets the word to 0.
#pragma once

#include "backend/cuda/ptx/load.cuh"

namespace nibble::cuda {

__device__ inline bool has_arrived(float word) { return __float_as_uint(word) != 0; }
__device__ inline bool has_arrived(const float4& words) {
  return has_arrived(words.x) && has_arrived(words.y) && has_arrived(words.z) && has_arrived(words.w);
}
__device__ inline float as_word(float value) { return has_arrived(value) ? value : -0.0f; }
// Reloads words that have not arrived. If the caller tests the words only after several calls, the loads
// overlap.
template <typename T>
__device__ inline void reload(T& words, const T* from) {
  if (!has_arrived(words)) words = load_relaxed(from);
}

}  // namespace nibble::cuda
