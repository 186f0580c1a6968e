#include "backend/cuda/verify/probes/block_products.h"

#include "backend/cuda/chip/check.h"
#include "backend/cuda/ptx/block_mma.cuh"

namespace nibble::cuda::verify {
namespace {

template <BlockProduct product, BlockForm form, int a_byte, int b_byte>
__global__ void multiply_kernel(WarpRegisters* warps) {
  WarpRegisters& warp = warps[blockIdx.x];
  const unsigned lane = threadIdx.x;
  const uint32_t a[]{warp.a[lane][0], warp.a[lane][1], warp.a[lane][2], warp.a[lane][3]};
  const uint32_t b[]{warp.b[lane][0], warp.b[lane][1]};
  float d[]{warp.d[lane][0], warp.d[lane][1], warp.d[lane][2], warp.d[lane][3]};
  if constexpr (product == BlockProduct::kNative)
    block_mma<form, a_byte, b_byte>(d, a, b, warp.a_scale[lane], warp.b_scale[lane]);
  else if constexpr (product == BlockProduct::kTwin)
    block_mma_twin<form, a_byte, b_byte>(d, a, b, warp.a_scale[lane], warp.b_scale[lane]);
  else
    block_mma_unscaled(d, a, b);
  for (int i = 0; i < 4; ++i) warp.d[lane][i] = d[i];
}

__global__ void ask_kernel(int* is_native) { *is_native = NIBBLE_BLOCK_MMA; }

template <BlockProduct product, BlockForm form, int a_byte, int b_byte>
void multiply_with(Stream stream, const BlockProductArgs& args) {
  if (args.a_byte != a_byte || args.b_byte != b_byte) return;
  multiply_kernel<product, form, a_byte, b_byte>
      <<<static_cast<unsigned>(args.count), 32, 0, stream>>>(args.warps);
}
// Calls multiply_with() with scale byte `a_byte` of A and each scale byte of B. Only the call with the two
// bytes in `args` launches a kernel.
template <BlockProduct product, int a_byte>
void multiply_wide(Stream stream, const BlockProductArgs& args) {
  multiply_with<product, BlockForm::kMxfp8, a_byte, 0>(stream, args);
  multiply_with<product, BlockForm::kMxfp8, a_byte, 1>(stream, args);
  multiply_with<product, BlockForm::kMxfp8, a_byte, 2>(stream, args);
  multiply_with<product, BlockForm::kMxfp8, a_byte, 3>(stream, args);
}
template <BlockProduct product>
void multiply_with(Stream stream, const BlockProductArgs& args) {
  if (args.form == BlockForm::kMxfp8) {
    multiply_wide<product, 0>(stream, args);
    multiply_wide<product, 1>(stream, args);
    multiply_wide<product, 2>(stream, args);
    multiply_wide<product, 3>(stream, args);
  } else {
    multiply_with<product, BlockForm::kMxfp4, 0, 0>(stream, args);
    multiply_with<product, BlockForm::kMxfp4, 0, 2>(stream, args);
    multiply_with<product, BlockForm::kMxfp4, 2, 0>(stream, args);
    multiply_with<product, BlockForm::kMxfp4, 2, 2>(stream, args);
  }
}

}  // namespace

void multiply_blocks(Stream stream, const BlockProductArgs& args) {
  switch (args.product) {
    case BlockProduct::kNative:
      multiply_with<BlockProduct::kNative>(stream, args);
      break;
    case BlockProduct::kTwin:
      multiply_with<BlockProduct::kTwin>(stream, args);
      break;
    case BlockProduct::kUnscaled:
      multiply_kernel<BlockProduct::kUnscaled, BlockForm::kMxfp8, 0, 0>
          <<<static_cast<unsigned>(args.count), 32, 0, stream>>>(args.warps);
      break;
  }
  check(cudaGetLastError(), "multiplying blocks");
}

void ask_block_mma(Stream stream, int* is_native) {
  ask_kernel<<<1, 1, 0, stream>>>(is_native);
  check(cudaGetLastError(), "launching block-scaled products");
}

}  // namespace nibble::cuda::verify
