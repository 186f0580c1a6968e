// mma.sync instructions: a warp computes d += A B on the tensor cores, summed in float32. block_mma.cuh has
// those with scales.
#pragma once

#include <cstdint>

// NIBBLE_FP8_MMA is 1 if mma.sync multiplies FP8 in hardware. On sm_90, the compiler emulates this.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890 && __CUDA_ARCH__ != 900
#define NIBBLE_FP8_MMA 1
#else
#define NIBBLE_FP8_MMA 0
#endif

namespace nibble::cuda {

__device__ inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Computes d += A B by one m16n8k32 of E4M3. Leaves `d` unchanged on GPUs without this instruction.
__device__ inline void mma_e4m3([[maybe_unused]] float (&d)[4], [[maybe_unused]] const uint32_t (&a)[4],
                                [[maybe_unused]] uint32_t b0, [[maybe_unused]] uint32_t b1) {
#if NIBBLE_FP8_MMA
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

}  // namespace nibble::cuda
