// Arguments and declarations of the loops that exist once per instruction set. Files of this folder are
// compiled for instruction sets that the machine may lack. If several files compiled the same inline
// function, the linker would keep one copy, possibly one with AVX-512 instructions. So the files include only
// intrinsics and headers of this folder, and this header defines no function.
//
// Float activations are in split order: in each block of 32 elements the 16 even ones, then the 16 odd ones,
// with rows zero-padded to whole blocks. So every weight format is decoded without a shuffle: a 32-bit word
// of BF16, a 16-bit word of FP8 or a byte of MXFP4 codes has an even element in its low half, an odd one in
// its high half.
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

inline constexpr int kBlock{32};  // elements of a row decoded together: the size of an MXFP4 block

// y[t][r] = sum over c of w[first_row + r][c] * x[t][c]. The order of the sum depends only on the instruction
// set, so y[t][r] has the same bits for any number of tokens and rows.
struct DotArgs {
  const void* weights;      // [rows, cols], row-major: BF16, E4M3, or MXFP4 codes (16 bytes per 32 elements)
  const uint8_t* scales;    // MXFP4 only: E8M0, [rows, cols / 32]
  const float* row_scales;  // E4M3 only: [rows], factor for the finished sum; null: all factors are 1
  int cols;
  int first_row, num_rows;
  const float* const* x;  // [num_tokens]: pointers to rows of `cols` elements in split order
  int num_tokens;
  float* y;
  ptrdiff_t y_stride;  // distance from y[t] to y[t + 1], in floats
};
using DotKernel = void(const DotArgs&);

// out[h][d] += sum over j of weights[h][j] * values[j][d], j ascending.
struct WeighArgs {
  const void* values;  // BF16 or E4M3 [num_positions, head_dim]
  int num_positions, head_dim;
  const float* weights;  // [num_heads, weights_stride]; the first num_positions of each row are read
  ptrdiff_t weights_stride;
  int num_heads;
  float* out;  // [num_heads, out_stride]: sums, each row in split order
  ptrdiff_t out_stride;
};
using WeighKernel = void(const WeighArgs&);

inline constexpr int kMaxStripRows{16};

// 32 int8 activations in natural order: x[c] = 2 * half_scale * codes[c]. The scale is halved, because
// kernels double MXFP4 weights to make them integers. Kernels that need unsigned weights add 12 or 128 to
// each weight; `offset` and `q8_0_offset` compensate for that.
struct Q8Block {
  int8_t codes[kBlock];
  float half_scale;
  int32_t offset;       // -12 * sum of codes, for MXFP4
  int32_t q8_0_offset;  // -128 * sum of codes, for Q8_0
};

// y[t][r] = sum over c of w[first_row + r][c] * x[t][c], with weights in strips and int8 activations. y[t][r]
// has the same bits for any number of tokens and rows. A strip has StripRow::strip_rows rows, one per 32-bit
// lane of a vector. A lane holds 4 adjacent columns of its row; 4 activations, broadcast to all lanes,
// multiply it. A block (32 columns) of a strip takes as much memory as in a file, in this order:
//   MXFP4  word 0 of each row, then word 1 of each row, up to word 3. Byte j of word v has column 8 v + j in
//          its low nibble and column 8 v + 4 + j in its high nibble. One E8M0 scale per row
//   Q8_0   word 0 of each row, then word 1 of each row, up to word 7. Byte j of word w is column 4 w + j, as
//          int8. One scale d per row, an IEEE half
struct StripArgs {
  const uint8_t* codes;   // [strip, block, word, row, byte of 4]; 4 or 8 words per block
  const uint8_t* scales;  // [strip, block, row]
  int cols;
  int first_row, num_rows;  // multiples of strip_rows
  const Q8Block* const* x;  // [num_tokens]: pointers to rows of cols / 32 blocks
  int num_tokens;
  float* y;
  ptrdiff_t y_stride;  // distance from y[t] to y[t + 1], in floats
};
using StripKernel = void(const StripArgs&);

namespace portable {
StripKernel strip_mxfp4, strip_q8_0;
DotKernel dot_bf16, dot_e4m3, dot_mxfp4;
WeighKernel weigh_bf16, weigh_e4m3;
}  // namespace portable

#if NIBBLE_X86
namespace avx2 {
StripKernel strip_mxfp4, strip_q8_0;
DotKernel dot_bf16, dot_e4m3, dot_mxfp4;
WeighKernel weigh_bf16, weigh_e4m3;
}  // namespace avx2

namespace avx_vnni {
StripKernel strip_mxfp4, strip_q8_0;
}  // namespace avx_vnni

namespace avx512 {
DotKernel dot_bf16, dot_e4m3, dot_mxfp4;
WeighKernel weigh_bf16, weigh_e4m3;
}  // namespace avx512

namespace avx512_vnni {
StripKernel strip_mxfp4, strip_q8_0;
}  // namespace avx512_vnni

namespace amx {
StripKernel strip_mxfp4, strip_q8_0;
}  // namespace amx
#endif

#if NIBBLE_AARCH64
namespace neon {
StripKernel strip_mxfp4, strip_q8_0;
DotKernel dot_bf16, dot_e4m3, dot_mxfp4;
WeighKernel weigh_bf16, weigh_e4m3;
}  // namespace neon

namespace neon_dotprod {
StripKernel strip_mxfp4, strip_q8_0;
}  // namespace neon_dotprod

namespace neon_i8mm {
StripKernel strip_mxfp4, strip_q8_0;
}  // namespace neon_i8mm
#endif

}  // namespace nibble::cpu
