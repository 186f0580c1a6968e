// Hopper's products of a warpgroup (wgmma): 64 rows, 16 of each of its four warps, by n columns, over 16 of the contraction. A comes from
// registers, as for mma.m16n8k16; B lies in shared memory; the sums are those of n / 8 products of mma.m16n8k16. wgmma adds in the order
// of mma.sync (probed: verify/probes).
//
// B: a column's 64 elements of a tile are 128 bytes, columns follow each other, and the 16-byte piece p of column c is at p ^ (c % 8). It
// begins at a multiple of 1,024 bytes.
#pragma once

#include <cstdint>

// sm_90a alone: no other family has these instructions.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define NIBBLE_WGMMA 1
#else
#define NIBBLE_WGMMA 0
#endif

namespace nibble::cuda {

// Makes what ordinary instructions of this thread, cp.async among them, have written to shared memory visible to wgmma.
__device__ inline void fence_for_products() {
#if NIBBLE_WGMMA
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

#if NIBBLE_WGMMA

// Orders ordinary accesses of registers, A and sums, before the products that follow.
__device__ inline void fence_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// Ends a group of products; waits until only the last `later` groups may be under way. Until then neither their sums nor their A may be
// touched.
__device__ inline void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int later>
__device__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(later) : "memory");
}

// Describes B at this shared address, for 16 of a tile's 64 columns: K-major, 128-byte swizzle (2^62), 1,024 bytes from 8 columns to the
// next 8.
__device__ inline uint64_t describe_columns(uint32_t address) {
  return uint64_t{1} << 62 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 16 | (address & 0x3FFFF) >> 4;
}

// d += A B.
#define NIBBLE_SUMS(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
__device__ inline void wgmma_bf16(float (&d)[2][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7"
      "}, {%8, %9, %10, %11}, %12, 1, 1, 1, 0;"
      : NIBBLE_SUMS(0), NIBBLE_SUMS(1)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void wgmma_bf16(float (&d)[4][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
      "}, {%16, %17, %18, %19}, %20, 1, 1, 1, 0;"
      : NIBBLE_SUMS(0), NIBBLE_SUMS(1), NIBBLE_SUMS(2), NIBBLE_SUMS(3)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void wgmma_bf16(float (&d)[6][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
      "%21, %22, %23"
      "}, {%24, %25, %26, %27}, %28, 1, 1, 1, 0;"
      : NIBBLE_SUMS(0), NIBBLE_SUMS(1), NIBBLE_SUMS(2), NIBBLE_SUMS(3), NIBBLE_SUMS(4), NIBBLE_SUMS(5)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void wgmma_bf16(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 0;"
      : NIBBLE_SUMS(0), NIBBLE_SUMS(1), NIBBLE_SUMS(2), NIBBLE_SUMS(3), NIBBLE_SUMS(4), NIBBLE_SUMS(5),
        NIBBLE_SUMS(6), NIBBLE_SUMS(7)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void wgmma_bf16(float (&d)[10][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39"
      "}, {%40, %41, %42, %43}, %44, 1, 1, 1, 0;"
      : NIBBLE_SUMS(0), NIBBLE_SUMS(1), NIBBLE_SUMS(2), NIBBLE_SUMS(3), NIBBLE_SUMS(4), NIBBLE_SUMS(5),
        NIBBLE_SUMS(6), NIBBLE_SUMS(7), NIBBLE_SUMS(8), NIBBLE_SUMS(9)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void wgmma_bf16(float (&d)[12][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47"
      "}, {%48, %49, %50, %51}, %52, 1, 1, 1, 0;"
      : NIBBLE_SUMS(0), NIBBLE_SUMS(1), NIBBLE_SUMS(2), NIBBLE_SUMS(3), NIBBLE_SUMS(4), NIBBLE_SUMS(5),
        NIBBLE_SUMS(6), NIBBLE_SUMS(7), NIBBLE_SUMS(8), NIBBLE_SUMS(9), NIBBLE_SUMS(10), NIBBLE_SUMS(11)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void wgmma_bf16(float (&d)[14][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n112k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55"
      "}, {%56, %57, %58, %59}, %60, 1, 1, 1, 0;"
      : NIBBLE_SUMS(0), NIBBLE_SUMS(1), NIBBLE_SUMS(2), NIBBLE_SUMS(3), NIBBLE_SUMS(4), NIBBLE_SUMS(5),
        NIBBLE_SUMS(6), NIBBLE_SUMS(7), NIBBLE_SUMS(8), NIBBLE_SUMS(9), NIBBLE_SUMS(10), NIBBLE_SUMS(11),
        NIBBLE_SUMS(12), NIBBLE_SUMS(13)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void wgmma_bf16(float (&d)[16][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "
      "%59, %60, %61, %62, %63"
      "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 0;"
      : NIBBLE_SUMS(0), NIBBLE_SUMS(1), NIBBLE_SUMS(2), NIBBLE_SUMS(3), NIBBLE_SUMS(4), NIBBLE_SUMS(5),
        NIBBLE_SUMS(6), NIBBLE_SUMS(7), NIBBLE_SUMS(8), NIBBLE_SUMS(9), NIBBLE_SUMS(10), NIBBLE_SUMS(11),
        NIBBLE_SUMS(12), NIBBLE_SUMS(13), NIBBLE_SUMS(14), NIBBLE_SUMS(15)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
#undef NIBBLE_SUMS

// Gives up registers of each thread of this warpgroup, down to so many; takes more, up to so many, when others have given them up.
template <int registers>
__device__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

#endif

}  // namespace nibble::cuda
