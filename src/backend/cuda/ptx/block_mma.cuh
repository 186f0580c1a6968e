// A warp's block-scaled mma on sm_120a and sm_121a: D += (A times its scales) (B times its scales).
//
//  mma.sync.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32   BlockForm::kMxfp8   1 scale per 32 columns
//  mma.sync.kind::mxf4.block_scale.scale_vec::2X.m16n8k64       BlockForm::kMxfp4   2 scales per 64 columns
//
// Scales are E8M0 bytes, four per register. An mma of kMxfp8 uses one byte b (the parameter a_byte or
// b_byte); an mma of kMxfp4 uses bytes b and b + 1, for columns 0-31 and 32-63. So a register serves four mma
// of kMxfp8 (b = 0 .. 3) or two of kMxfp4 (b = 0, 2). Lane 4 (m % 8) + m / 8 provides the scales of row m of
// A, lane 4 n those of column n of B; other lanes are ignored. The results are added to D in the order of
// calls; `nibble verify` measures how the hardware rounds them, which is undocumented.
#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/ptx/block_mma_twin.h"
#include "backend/cuda/ptx/mma.cuh"

// Do not test __CUDA_ARCH__ here: sm_120, which lacks the instruction, and sm_120a have the same value.
#if defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_FEAT_SM121_ALL)
#define NIBBLE_BLOCK_MMA 1
#elif defined(__CUDA_ARCH_FAMILY_SPECIFIC__)
#if __CUDA_ARCH_FAMILY_SPECIFIC__ >= 1200
#define NIBBLE_BLOCK_MMA 1
#endif
#endif
#ifndef NIBBLE_BLOCK_MMA
#define NIBBLE_BLOCK_MMA 0
#endif

namespace nibble::cuda {

// Checks at compile time that an mma may use bytes a_byte and b_byte of its scale registers.
template <BlockForm form, int a_byte, int b_byte>
struct BlockBytes {
  static constexpr int kStep{form == BlockForm::kMxfp8 ? 1 : 2};
  static_assert(a_byte >= 0 && a_byte < 4 && a_byte % kStep == 0);
  static_assert(b_byte >= 0 && b_byte < 4 && b_byte % kStep == 0);
};

// Computes the same as block_mma(), but by mma_f16(), for GPUs without the block-scaled instruction
// (block_mma_twin.h).
template <BlockForm form, int a_byte, int b_byte>
__device__ void block_mma_twin(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                               uint32_t a_scale, uint32_t b_scale) {
  BlockBytes<form, a_byte, b_byte>();
  const int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int block = 0; block < contraction(form) / kBlockCols; ++block) {
    const HalfOperands operands = half_operands(form, a, b, block);
    float c[4]{};
    mma_f16(c, operands.a[0], operands.b[0][0], operands.b[0][1]);
    mma_f16(c, operands.a[1], operands.b[1][0], operands.b[1][1]);
    const auto scale = [block](uint32_t word, int lane, int byte) {
      return __uint_as_float(scale_bits(__shfl_sync(~0u, word, lane) >> 8 * (byte + block) & 0xFFu));
    };
    const float upper = scale(a_scale, 4 * g, a_byte), lower = scale(a_scale, 4 * g + 1, a_byte);
    const float left = scale(b_scale, 8 * t, b_byte), right = scale(b_scale, 8 * t + 4, b_byte);
    // The two scales are multiplied first: a sum times only one of them can leave float32's range.
    d[0] += half_products_scale(form) * c[0] * (upper * left);
    d[1] += half_products_scale(form) * c[1] * (upper * right);
    d[2] += half_products_scale(form) * c[2] * (lower * left);
    d[3] += half_products_scale(form) * c[3] * (lower * right);
  }
}

#if NIBBLE_BLOCK_MMA
template <BlockForm form, int a_byte, int b_byte>
__device__ inline void block_mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                 uint32_t a_scale, uint32_t b_scale) {
  BlockBytes<form, a_byte, b_byte>();
  if constexpr (form == BlockForm::kMxfp8)
    asm("mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e2m1.e4m3.f32.ue8m0 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, %10, {%12,0}, %11, {%13,0};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(a_scale), "r"(b_scale),
          "n"(a_byte), "n"(b_byte));
  else
    asm("mma.sync.aligned.kind::mxf4.block_scale.scale_vec::2X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, %10, {%12,0}, %11, {%13,0};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(a_scale), "r"(b_scale),
          "n"(a_byte), "n"(b_byte));
}
#else
template <BlockForm form, int a_byte, int b_byte>
__device__ inline void block_mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                 uint32_t a_scale, uint32_t b_scale) {
  block_mma_twin<form, a_byte, b_byte>(d, a, b, a_scale, b_scale);
}
#endif

// Computes the same as block_mma<kMxfp8>(), but without scales. Leaves `d` unchanged on GPUs without the
// instruction below.
__device__ inline void block_mma_unscaled([[maybe_unused]] float (&d)[4],
                                          [[maybe_unused]] const uint32_t (&a)[4],
                                          [[maybe_unused]] const uint32_t (&b)[2]) {
#if NIBBLE_BLOCK_MMA
  asm("mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e2m1.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

}  // namespace nibble::cuda
