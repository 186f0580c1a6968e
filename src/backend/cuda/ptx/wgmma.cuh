// wgmma of Hopper: a warpgroup computes d += A B with A [64, 16] (16 rows per warp) and B [16, n]. A comes
// from registers, as for mma.m16n8k16; B is in shared memory. wgmma and mma.m16n8k16 give the same bits if
// they add the same products of A and B to d in the same order: `nibble verify` checks this for every kernel
// that uses wgmma.
//
// wgmma_bf16() takes B column by column, from a multiple of 1,024 bytes on: a column takes 128 bytes, which
// hold the 64 elements of four wgmma (16 rows of B each). 16-byte piece p of column c is stored as piece
// number p ^ (c % 8) of the column. wgmma_bf16_by_rows() takes B row by row, with 72 columns: the first 64
// take 128 bytes per row, with piece p of row r stored as piece number p ^ (r % 8), and the last 8 columns
// are stored elsewhere.
#pragma once

#include <cstdint>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define NIBBLE_WGMMA 1
#else
#define NIBBLE_WGMMA 0
#endif

namespace nibble::cuda {

#if NIBBLE_WGMMA

// Orders earlier ordinary accesses to registers (A and sums) before the wgmma that follow.
__device__ inline void fence_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// end_products() makes all wgmma since its previous call one group. wait_for_products() waits until at most
// the last `later` groups are in flight. The A registers and sums of a group must not be accessed until the
// group has completed.
__device__ inline void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int later>
__device__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(later) : "memory");
}

// Makes data that threads stored in shared memory, or copied there with cp.async, visible to later wgmma.
// Call it in the thread that stored the data, or, after waiting for the data, in the threads that issue the
// wgmma.
__device__ inline void show_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Returns the lower word of the descriptor of B stored column by column. `address`: shared address of B's
// first row in its first column. To move this address by 16 i bytes, add i to the word. The upper word is
// constant (128-byte swizzle; 1,024 bytes from 8 columns of B to the next 8) and is not computed: 64-bit
// additions and the moves around them took a twelfth of the instructions of a kernel that multiplies a batch.
__device__ inline uint32_t describe_columns(uint32_t address) { return 1u << 16 | address / 16; }
// Returns the lower word of the descriptor of B stored row by row (wgmma_bf16_by_rows()). The first 64
// columns of B begin at shared address `address`, the last 8 at `last_columns`, which must be the higher one.
__device__ inline uint32_t describe_rows(uint32_t address, uint32_t last_columns) {
  return (last_columns - address) / 16 * 0x10000 + address / 16;
}
#define NIBBLE_UPPER_WORD "0x40000040"

// wgmma_bf16<true> computes d += A B. wgmma_bf16<false> computes d = A B, and d may be uninitialised.
#define NIBBLE_IN(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
#define NIBBLE_OUT(j) "=f"(d[j][0]), "=f"(d[j][1]), "=f"(d[j][2]), "=f"(d[j][3])
#define NIBBLE_PRODUCT(n, numbers, operands_a, operand_b, adds, by_rows, out)                             \
  asm volatile("{.reg .b64 b;\n mov.b64 b, {" operand_b ", " NIBBLE_UPPER_WORD                            \
               "};\n wgmma.mma_async.sync.aligned.m64n" n "k16.f32.bf16.bf16 {" numbers "}, {" operands_a \
               "}, b, " adds ", 1, 1, " by_rows ";}"                                                      \
               : out                                                                                      \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b))
#define NIBBLE_WGMMA_NAMED(name, by_rows, tiles, n, numbers, operands_a, operand_b, all) \
  template <bool adds>                                                                   \
  __device__ void name(float(&d)[tiles][4], const uint32_t(&a)[4], uint32_t b) {         \
    if constexpr (adds)                                                                  \
      NIBBLE_PRODUCT(n, numbers, operands_a, operand_b, "1", by_rows, all(NIBBLE_IN));   \
    else                                                                                 \
      NIBBLE_PRODUCT(n, numbers, operands_a, operand_b, "0", by_rows, all(NIBBLE_OUT));  \
  }
#define NIBBLE_WGMMA_OF(tiles, n, numbers, operands_a, operand_b, all) \
  NIBBLE_WGMMA_NAMED(wgmma_bf16, "0", tiles, n, numbers, operands_a, operand_b, all)
#define NIBBLE_NUMBERS_1 "%0, %1, %2, %3"
#define NIBBLE_SUMS_1(f) f(0)
NIBBLE_WGMMA_OF(1, "8", NIBBLE_NUMBERS_1, "%4, %5, %6, %7", "%8", NIBBLE_SUMS_1)
#define NIBBLE_NUMBERS_2 NIBBLE_NUMBERS_1 ", %4, %5, %6, %7"
#define NIBBLE_SUMS_2(f) NIBBLE_SUMS_1(f), f(1)
NIBBLE_WGMMA_OF(2, "16", NIBBLE_NUMBERS_2, "%8, %9, %10, %11", "%12", NIBBLE_SUMS_2)
#define NIBBLE_NUMBERS_3 NIBBLE_NUMBERS_2 ", %8, %9, %10, %11"
#define NIBBLE_SUMS_3(f) NIBBLE_SUMS_2(f), f(2)
NIBBLE_WGMMA_OF(3, "24", NIBBLE_NUMBERS_3, "%12, %13, %14, %15", "%16", NIBBLE_SUMS_3)
#define NIBBLE_NUMBERS_4 NIBBLE_NUMBERS_3 ", %12, %13, %14, %15"
#define NIBBLE_SUMS_4(f) NIBBLE_SUMS_3(f), f(3)
NIBBLE_WGMMA_OF(4, "32", NIBBLE_NUMBERS_4, "%16, %17, %18, %19", "%20", NIBBLE_SUMS_4)
#define NIBBLE_NUMBERS_5 NIBBLE_NUMBERS_4 ", %16, %17, %18, %19"
#define NIBBLE_SUMS_5(f) NIBBLE_SUMS_4(f), f(4)
NIBBLE_WGMMA_OF(5, "40", NIBBLE_NUMBERS_5, "%20, %21, %22, %23", "%24", NIBBLE_SUMS_5)
#define NIBBLE_NUMBERS_6 NIBBLE_NUMBERS_5 ", %20, %21, %22, %23"
#define NIBBLE_SUMS_6(f) NIBBLE_SUMS_5(f), f(5)
NIBBLE_WGMMA_OF(6, "48", NIBBLE_NUMBERS_6, "%24, %25, %26, %27", "%28", NIBBLE_SUMS_6)
#define NIBBLE_NUMBERS_7 NIBBLE_NUMBERS_6 ", %24, %25, %26, %27"
#define NIBBLE_SUMS_7(f) NIBBLE_SUMS_6(f), f(6)
NIBBLE_WGMMA_OF(7, "56", NIBBLE_NUMBERS_7, "%28, %29, %30, %31", "%32", NIBBLE_SUMS_7)
#define NIBBLE_NUMBERS_8 NIBBLE_NUMBERS_7 ", %28, %29, %30, %31"
#define NIBBLE_SUMS_8(f) NIBBLE_SUMS_7(f), f(7)
NIBBLE_WGMMA_OF(8, "64", NIBBLE_NUMBERS_8, "%32, %33, %34, %35", "%36", NIBBLE_SUMS_8)
#define NIBBLE_NUMBERS_9 NIBBLE_NUMBERS_8 ", %32, %33, %34, %35"
#define NIBBLE_SUMS_9(f) NIBBLE_SUMS_8(f), f(8)
NIBBLE_WGMMA_OF(9, "72", NIBBLE_NUMBERS_9, "%36, %37, %38, %39", "%40", NIBBLE_SUMS_9)
NIBBLE_WGMMA_NAMED(wgmma_bf16_by_rows, "1", 9, "72", NIBBLE_NUMBERS_9, "%36, %37, %38, %39", "%40",
                   NIBBLE_SUMS_9)
#define NIBBLE_NUMBERS_10 NIBBLE_NUMBERS_9 ", %36, %37, %38, %39"
#define NIBBLE_SUMS_10(f) NIBBLE_SUMS_9(f), f(9)
NIBBLE_WGMMA_OF(10, "80", NIBBLE_NUMBERS_10, "%40, %41, %42, %43", "%44", NIBBLE_SUMS_10)
#define NIBBLE_NUMBERS_11 NIBBLE_NUMBERS_10 ", %40, %41, %42, %43"
#define NIBBLE_SUMS_11(f) NIBBLE_SUMS_10(f), f(10)
NIBBLE_WGMMA_OF(11, "88", NIBBLE_NUMBERS_11, "%44, %45, %46, %47", "%48", NIBBLE_SUMS_11)
#define NIBBLE_NUMBERS_12 NIBBLE_NUMBERS_11 ", %44, %45, %46, %47"
#define NIBBLE_SUMS_12(f) NIBBLE_SUMS_11(f), f(11)
NIBBLE_WGMMA_OF(12, "96", NIBBLE_NUMBERS_12, "%48, %49, %50, %51", "%52", NIBBLE_SUMS_12)
#define NIBBLE_NUMBERS_13 NIBBLE_NUMBERS_12 ", %48, %49, %50, %51"
#define NIBBLE_SUMS_13(f) NIBBLE_SUMS_12(f), f(12)
NIBBLE_WGMMA_OF(13, "104", NIBBLE_NUMBERS_13, "%52, %53, %54, %55", "%56", NIBBLE_SUMS_13)
#define NIBBLE_NUMBERS_14 NIBBLE_NUMBERS_13 ", %52, %53, %54, %55"
#define NIBBLE_SUMS_14(f) NIBBLE_SUMS_13(f), f(13)
NIBBLE_WGMMA_OF(14, "112", NIBBLE_NUMBERS_14, "%56, %57, %58, %59", "%60", NIBBLE_SUMS_14)
#define NIBBLE_NUMBERS_15 NIBBLE_NUMBERS_14 ", %56, %57, %58, %59"
#define NIBBLE_SUMS_15(f) NIBBLE_SUMS_14(f), f(14)
NIBBLE_WGMMA_OF(15, "120", NIBBLE_NUMBERS_15, "%60, %61, %62, %63", "%64", NIBBLE_SUMS_15)
#define NIBBLE_NUMBERS_16 NIBBLE_NUMBERS_15 ", %60, %61, %62, %63"
#define NIBBLE_SUMS_16(f) NIBBLE_SUMS_15(f), f(15)
NIBBLE_WGMMA_OF(16, "128", NIBBLE_NUMBERS_16, "%64, %65, %66, %67", "%68", NIBBLE_SUMS_16)
#undef NIBBLE_WGMMA_OF
#undef NIBBLE_WGMMA_NAMED
#undef NIBBLE_PRODUCT
#undef NIBBLE_UPPER_WORD
#undef NIBBLE_IN
#undef NIBBLE_OUT
#undef NIBBLE_NUMBERS_1
#undef NIBBLE_SUMS_1
#undef NIBBLE_NUMBERS_2
#undef NIBBLE_SUMS_2
#undef NIBBLE_NUMBERS_3
#undef NIBBLE_SUMS_3
#undef NIBBLE_NUMBERS_4
#undef NIBBLE_SUMS_4
#undef NIBBLE_NUMBERS_5
#undef NIBBLE_SUMS_5
#undef NIBBLE_NUMBERS_6
#undef NIBBLE_SUMS_6
#undef NIBBLE_NUMBERS_7
#undef NIBBLE_SUMS_7
#undef NIBBLE_NUMBERS_8
#undef NIBBLE_SUMS_8
#undef NIBBLE_NUMBERS_9
#undef NIBBLE_SUMS_9
#undef NIBBLE_NUMBERS_10
#undef NIBBLE_SUMS_10
#undef NIBBLE_NUMBERS_11
#undef NIBBLE_SUMS_11
#undef NIBBLE_NUMBERS_12
#undef NIBBLE_SUMS_12
#undef NIBBLE_NUMBERS_13
#undef NIBBLE_SUMS_13
#undef NIBBLE_NUMBERS_14
#undef NIBBLE_SUMS_14
#undef NIBBLE_NUMBERS_15
#undef NIBBLE_SUMS_15
#undef NIBBLE_NUMBERS_16
#undef NIBBLE_SUMS_16

// give_registers() lowers this warpgroup's registers per thread to `registers`; take_registers() raises them.
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
