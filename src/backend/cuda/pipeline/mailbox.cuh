// Mailbox: memory through which CTAs pass float32 words to waiting CTAs. A word of 0 has not arrived yet, so
// zeros are stored as -0, which changes no sum that starts with 0. A word's only reader resets it to 0.
#pragma once

#include "backend/cuda/ptx/load.cuh"

namespace nibble::cuda {

__device__ inline bool has_come(float word) { return __float_as_uint(word) != 0; }
__device__ inline bool has_come(const float4& words) {
  return has_come(words.x) && has_come(words.y) && has_come(words.z) && has_come(words.w);
}
__device__ inline float as_word(float value) { return has_come(value) ? value : -0.0f; }
// ask_again() reloads words that have not arrived; loads stay in flight together until a word is examined.
template <typename T>
__device__ inline void ask_again(T& words, const T* from) {
  if (!has_come(words)) words = load_relaxed(from);
}

}  // namespace nibble::cuda
