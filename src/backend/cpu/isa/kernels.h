// The loops that exist once per instruction set: their arguments and declarations.
//
// The files of this folder are compiled for instruction sets that this machine may not support. So they
// include only intrinsics and headers of this folder, and this header defines no function: each file would
// emit its own copy of an inline function, the linker would keep any one of them, and a machine without
// AVX-512 could run the copy that needs it.
//
// Float activations are in split order: in each block of 32 elements, first the 16 even ones, then the 16 odd
// ones. Rows are zero-padded to whole blocks. In this order every weight format can be decoded without a
// shuffle: a 32-bit word of BF16, a 16-bit word of FP8 and a byte of MXFP4 codes each hold an even element in
// the low half and an odd one in the high half.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#define NIBBLE_X86 1
#else
#define NIBBLE_X86 0
#endif
#if defined(__aarch64__)
#define NIBBLE_AARCH64 1
#else
#define NIBBLE_AARCH64 0
#endif

namespace nibble::cpu {

inline constexpr int kBlock{32};  // elements of a row that are decoded together: the size of an MXFP4 block

// y[t][r] = sum over c of w[first_row + r][c] * x[t][c]. The order of the sum over c depends only on the
// instruction set: no bit of any y[t][r] depends on the number of tokens or of rows.
struct DotArgs {
  const void* weights;      // [rows, cols], row-major: BF16, E4M3, or MXFP4 codes (16 bytes per 32 elements)
  const uint8_t* scales;    // for MXFP4: E8M0, [rows, cols / 32]
  const float* row_scales;  // for E4M3: [rows], factor of the finished sum; null: 1
  int cols;
  int first_row, num_rows;
  const float* const* x;  // [num_tokens] rows of `cols` elements, split order
  int num_tokens;
  float* y;
  ptrdiff_t y_stride;  // elements from y[t] to y[t + 1]
};
using DotKernel = void (*)(const DotArgs&);

// out[h][d] += sum over j of weights[h][j] * values[j][d], j ascending.
struct WeighArgs {
  const void* values;  // BF16 or E4M3 [num_positions, head_dim]
  int num_positions, head_dim;
  const float* weights;  // [num_heads, ...]
  ptrdiff_t weights_stride;
  int num_heads;
  float* out;  // [num_heads, ...], rows in split order
  ptrdiff_t out_stride;
};
using WeighKernel = void (*)(const WeighArgs&);

inline constexpr int kMaxStripRows{16};

// A block of int8 activations in natural order: x[c] = 2 * half_scale * codes[c]. The scale is halved because
// MXFP4 weights are doubled. The offsets compensate for the number that is added to weights if the
// instructions need unsigned ones (StripArgs).
struct Q8Block {
  int8_t codes[kBlock];
  float half_scale;
  int32_t offset;       // -12 * sum of codes, for MXFP4
  int32_t q8_0_offset;  // -128 * sum of codes, for Q8_0
};

// y[t][r] = sum over c of w[first_row + r][c] * x[t][c], with weights in strips and int8 activations. A strip
// has as many rows as a vector has 32-bit lanes (StripRow::strip_rows). The bytes of one vector are 4
// adjacent columns of all rows, and are multiplied by a broadcast word of activations. A block of a strip
// takes the same number of bytes as in a file:
//
//   MXFP4   16 bytes of codes per row: word v = 0..3 of every row in turn, with columns 8 v + j in the low
//           and 8 v + 4 + j in the high nibble of byte j; and one E8M0 scale per row
//   Q8_0    32 bytes per row: word w = 0..7 of every row in turn, columns 4 w + j, int8; and one scale d per
//           row, an IEEE half
//
//   block sum = sum over c of 2 w[c] * codes[c] of MXFP4, of w[c] * codes[c] of Q8_0: exact, in int32
//   y = sum over blocks, in order, in float32, of block sum * (2^(e - 127) * half_scale); for Q8_0, of
//       block sum * (2 d * half_scale)
//
// No bit of any y[t][r] depends on the number of tokens or of rows.
struct StripArgs {
  const uint8_t* codes;   // [rows / strip_rows, cols / 32, 4 or 8, strip_rows, 4]
  const uint8_t* scales;  // [rows / strip_rows, cols / 32, strip_rows]
  int cols;
  int first_row, num_rows;  // multiples of strip_rows
  const Q8Block* const* x;  // [num_tokens] rows of cols / 32 blocks
  int num_tokens;
  float* y;
  ptrdiff_t y_stride;  // elements from y[t] to y[t + 1]
};
using StripKernel = void (*)(const StripArgs&);

namespace portable {
void strip_mxfp4(const StripArgs& args);
void strip_q8_0(const StripArgs& args);
void dot_bf16(const DotArgs& args);
void dot_e4m3(const DotArgs& args);
void dot_mxfp4(const DotArgs& args);
void weigh_bf16(const WeighArgs& args);
void weigh_e4m3(const WeighArgs& args);
}  // namespace portable

#if NIBBLE_X86
namespace avx2 {
void strip_mxfp4(const StripArgs& args);
void strip_q8_0(const StripArgs& args);
void dot_bf16(const DotArgs& args);
void dot_e4m3(const DotArgs& args);
void dot_mxfp4(const DotArgs& args);
void weigh_bf16(const WeighArgs& args);
void weigh_e4m3(const WeighArgs& args);
}  // namespace avx2

namespace avx_vnni {
void strip_mxfp4(const StripArgs& args);
void strip_q8_0(const StripArgs& args);
}  // namespace avx_vnni

namespace avx512 {
void dot_bf16(const DotArgs& args);
void dot_e4m3(const DotArgs& args);
void dot_mxfp4(const DotArgs& args);
void weigh_bf16(const WeighArgs& args);
void weigh_e4m3(const WeighArgs& args);
}  // namespace avx512

namespace avx512_vnni {
void strip_mxfp4(const StripArgs& args);
void strip_q8_0(const StripArgs& args);
}  // namespace avx512_vnni

namespace amx {
void strip_mxfp4(const StripArgs& args);
void strip_q8_0(const StripArgs& args);
}  // namespace amx
#endif

#if NIBBLE_AARCH64
namespace neon {
void strip_mxfp4(const StripArgs& args);
void strip_q8_0(const StripArgs& args);
void dot_bf16(const DotArgs& args);
void dot_e4m3(const DotArgs& args);
void dot_mxfp4(const DotArgs& args);
void weigh_bf16(const WeighArgs& args);
void weigh_e4m3(const WeighArgs& args);
}  // namespace neon

namespace neon_dotprod {
void strip_mxfp4(const StripArgs& args);
void strip_q8_0(const StripArgs& args);
}  // namespace neon_dotprod

namespace neon_i8mm {
void strip_mxfp4(const StripArgs& args);
void strip_q8_0(const StripArgs& args);
}  // namespace neon_i8mm
#endif

}  // namespace nibble::cpu
