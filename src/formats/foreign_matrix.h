// Matrices as other programs quantise them in safetensors and GGUF files. Element (r, c) of a matrix
// [rows, cols], with g = c / group and z the zero point of its group:
//   NVFP4        e2m1(code) * e4m3(scale[r, g]) * factor, groups of 16: ModelOpt, compressed-tensors, GGUF
//   MLX          scale[r, g] * code + offset[r, g], 4 or 8 bits
//   MXFP4        see formats/mxfp4.h: dense layers of MLX checkpoints
//   AWQ, GPTQ    scale[g, r] * (code - z), 4 bits, stored as [cols, rows]
//   INT4         scale[r, g] * (code - z), z = 8 if symmetric: compressed-tensors
//   FP8          e4m3(code) * scale[r]: experts. FP8 dense layers are Elements (model/weights.h)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/tensors/dtype.h"

namespace nibble {

enum class ForeignLayout {
  kNvfp4,         // codes [rows, cols / 2], the even element in the low nibble; scales [rows, cols / 16]
  kNvfp4Columns,  // codes [cols / 2, rows], scales [cols / 16, rows]: ModelOpt's experts
  kNvfp4Blocks,   // ggml blocks of type NVFP4 (formats/ggml_blocks.h), multiplied by `factor`
  kMlx4,   // codes [rows, cols / 2], the even element in the low nibble; scales and offsets [rows, groups]
  kMlx8,   // codes [rows, cols]; scales and offsets as for kMlx4
  kMxfp4,  // codes [rows, cols / 2], scales E8M0 [rows, cols / 32]
  kAwq,    // words [cols, rows / 8], zeros [groups, rows / 8]: rows in the order 0, 2, 4, 6, 1, 3, 5, 7
  kGptq,   // words [cols / 8, rows], zeros [groups, rows / 8], scales [groups, rows], group_of [cols]
  kInt4,   // words [rows, cols / 8], scales [rows, groups], zeros [rows / 8, groups] or none
  kFp8,    // codes [rows, cols], scales [rows] or one scale for all rows
};

// Pointers into a file, aligned for their types. Words are little-endian, with the first element in the low
// bits.
struct ForeignMatrix {
  ForeignLayout layout{};
  size_t rows{0}, cols{0};
  const std::byte* codes{nullptr};
  const std::byte* scales{nullptr};
  const std::byte* zeros{nullptr};   // zero points, or MLX's offsets; null: none
  const int32_t* group_of{nullptr};  // kGptq: group of each column; null: column c has group c / `group`
  DType scale_dtype{DType::kF16};    // of scales and of MLX's offsets: F16, BF16 or F32
  size_t group{0};                   // columns that share a scale
  size_t num_groups{0};              // groups per row
  float factor{1};                   // NVFP4 only
  uint32_t zero_offset{0};           // kGptq: added to a stored zero point, modulo 16
  bool has_row_scales{true};         // kFp8: false if one scale is for all rows
};

std::string_view name(const ForeignMatrix& matrix);  // name of the type, for messages: "NVFP4", "MLX 4-bit"
size_t code_bytes(const ForeignMatrix& matrix);
size_t stored_bytes(const ForeignMatrix& matrix);  // bytes of codes, scales and zero points

// Decodes to.size() / cols rows to float32, beginning with row `first`.
void read_rows(const ForeignMatrix& matrix, size_t first, std::span<float> to);

}  // namespace nibble
