#include "backend/cuda/verify/probes/codes.h"

#include "backend/cuda/chip/check.h"
#include "backend/cuda/ptx/quantise_block.cuh"

namespace nibble::cuda::verify {
namespace {

constexpr int kThreads{128};

unsigned num_ctas_for(int num_threads) {
  return static_cast<unsigned>((num_threads + kThreads - 1) / kThreads);
}

__global__ void unpack_kernel(const UnpackArgs args) {
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= args.count) return;
  const uint32_t* words = args.words + 4 * i;
  const uint32_t tile[]{words[0], words[1], words[2], words[3]};
  uint32_t a[4];
  for (int group = 0; group < 2; ++group) {
    unpack_containers(tile[2 * group], tile[2 * group + 1], a);
    for (int reg = 0; reg < 4; ++reg) args.containers[8 * i + 4 * group + reg] = a[reg];
  }
  unpack_nibbles(tile, a);
  for (int reg = 0; reg < 4; ++reg) args.nibbles[4 * i + reg] = a[reg];
}

// Lanes past the last block of numbers also call block_largest() and block_errors(), which shuffle values
// among all 32 lanes of the warp.
__global__ void quantise_kernel(const QuantiseArgs args) {
  const int eight = static_cast<int>(blockIdx.x * kThreads + threadIdx.x), block = eight / 4;
  const bool is_inside = block < args.num_blocks;
  float x[8]{};
  if (is_inside)
    for (int c = 0; c < 8; ++c) x[c] = args.x[8 * eight + c];
  const uint32_t largest = block_largest(x);
  const uint8_t scale = mxfp8_scale(largest),
                nibble_scale = better_mxfp4_scale(largest, block_errors(x, largest));
  if (!is_inside) return;
  const TwoTerms terms = quantise_two_terms(x, largest);
  args.first[2 * eight] = terms.first.first;
  args.first[2 * eight + 1] = terms.first.second;
  args.rest[2 * eight] = terms.second.first;
  args.rest[2 * eight + 1] = terms.second.second;
  args.nibbles[eight] = quantise_mxfp4(x, largest, nibble_scale);
  if (threadIdx.x % 4 != 0) return;
  args.scales[3 * block] = scale;
  args.scales[3 * block + 1] = rest_scale(scale);
  args.scales[3 * block + 2] = nibble_scale;
}

}  // namespace

void unpack_codes(Stream stream, const UnpackArgs& args) {
  unpack_kernel<<<num_ctas_for(args.count), kThreads, 0, stream>>>(args);
  check(cudaGetLastError(), "unpacking codes");
}

void quantise_blocks(Stream stream, const QuantiseArgs& args) {
  quantise_kernel<<<num_ctas_for(4 * args.num_blocks), kThreads, 0, stream>>>(args);
  check(cudaGetLastError(), "quantising blocks");
}

}  // namespace nibble::cuda::verify
