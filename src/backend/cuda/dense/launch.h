// Chooses the grid and warps of dense launches for few tokens. This header has no device code, so that tests
// without a GPU can include it. CUDA code includes it too, so it must compile as C++17.
#pragma once

#include <algorithm>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/pipeline/stream_shape.h"

namespace nibble::cuda {

// Returns the number of CTAs that share a dense matrix: at most one per SM and one per strip.
inline unsigned num_ctas_for(const Target& target, const Strips& weights) {
  return static_cast<unsigned>(std::min(target.num_multiprocessors, weights.num_strips));
}

// The launch of a dense product for few tokens. num_ctas: CTAs of one pass. `stream`: a CTA's warps and
// shared memory.
struct DenseLaunch {
  unsigned num_ctas{0}, num_passes{0};
  StreamShape stream{};
};
// Returns the launch of a kernel whose CTAs get equal shares of the matrix (dense/stream.cu).
inline DenseLaunch dense_launch(const Target& target, const Strips& weights, int cols, int num_tokens) {
  const unsigned ctas = num_ctas_for(target, weights);
  const int units =
      weights.num_strips * weights.num_segments / static_cast<int>(ctas) + 1 + weights.num_segments;
  const StreamShape stream = stream_shape(target.budget, weights, cols, num_tokens, units);
  return {ctas, static_cast<unsigned>((num_tokens + stream.columns - 1) / stream.columns), stream};
}

// Returns the launch of the kernel that schedules strips dynamically (dense/unembed_dealt.cu).
inline DenseLaunch dealt_launch(const Target& target, const Strips& weights, int cols, int num_tokens) {
  const unsigned ctas = num_ctas_for(target, weights);
  // A CTA needs shared memory for the sums of all units (segments of strips) that it can get: a fast CTA
  // takes up to twice the mean share.
  const int units = 2 * (weights.num_strips / static_cast<int>(ctas) + 1) * weights.num_segments;
  const StreamShape stream = stream_shape(target.budget, weights, cols, num_tokens, units);
  return {ctas, static_cast<unsigned>((num_tokens + stream.columns - 1) / stream.columns), stream};
}

}  // namespace nibble::cuda
