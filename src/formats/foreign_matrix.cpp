#include "formats/foreign_matrix.h"

#include <cstring>
#include <iterator>

#include "core/errors/check.h"
#include "core/numbers/bf16.h"
#include "core/numbers/e2m1.h"
#include "core/numbers/e4m3.h"
#include "core/numbers/f16.h"
#include "formats/ggml_blocks.h"
#include "formats/mxfp4.h"

namespace nibble {
namespace {

constexpr size_t kNvfp4Group{16}, kPerWord{8};  // kPerWord: number of 4-bit elements in a word of 32 bits

struct RowRange {
  size_t first, count;
};

uint8_t byte_at(const std::byte* from, size_t index) { return std::to_integer<uint8_t>(from[index]); }

uint32_t packed_word(const std::byte* from, size_t index) {
  uint32_t word;
  std::memcpy(&word, from + index * sizeof(word), sizeof(word));
  return word;
}

template <typename T>
T value_at(const std::byte* from, size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

float float_at(DType dtype, const std::byte* from, size_t index) {
  if (dtype == DType::kF16) return to_float(value_at<F16>(from, index));
  if (dtype == DType::kBf16) return to_float(value_at<Bf16>(from, index));
  return value_at<float>(from, index);
}

uint32_t nibble_of(uint32_t word, size_t index) { return word >> (4 * index) & 15; }

float nvfp4_scale(const ForeignMatrix& m, size_t index) {
  return to_float(E4m3{byte_at(m.scales, index)}) * m.factor;
}

void read_nvfp4(const ForeignMatrix& m, const RowRange& rows, float* to) {
  for (size_t i = 0; i < rows.count; ++i) {
    const size_t row = rows.first + i;
    for (size_t c = 0; c < m.cols; c += kNvfp4Group) {
      const float scale = nvfp4_scale(m, (row * m.cols + c) / kNvfp4Group);
      for (size_t j = 0; j < kNvfp4Group; ++j) {
        const uint32_t pair = byte_at(m.codes, (row * m.cols + c + j) / 2);
        *to++ = kE2m1Values[nibble_of(pair, j % 2)] * scale;
      }
    }
  }
}

void read_nvfp4_columns(const ForeignMatrix& m, const RowRange& rows, float* to) {
  for (size_t c = 0; c < m.cols; ++c)
    for (size_t i = 0; i < rows.count; ++i) {
      const size_t row = rows.first + i;
      const uint32_t pair = byte_at(m.codes, c / 2 * m.rows + row);
      to[i * m.cols + c] =
          kE2m1Values[nibble_of(pair, c % 2)] * nvfp4_scale(m, c / kNvfp4Group * m.rows + row);
    }
}

void read_nvfp4_blocks(const ForeignMatrix& m, const RowRange& rows, float* to) {
  const size_t row_bytes = m.cols / block_elements(GgmlType::kNvfp4) * block_bytes(GgmlType::kNvfp4);
  const std::span<float> values(to, rows.count * m.cols);
  dequantise(GgmlType::kNvfp4, {m.codes + rows.first * row_bytes, rows.count * row_bytes}, values);
  for (float& value : values) value *= m.factor;
}

// `bits` is 4 or 8.
template <size_t bits>
void read_mlx(const ForeignMatrix& m, const RowRange& rows, float* to) {
  for (size_t i = 0; i < rows.count; ++i) {
    const size_t row = rows.first + i;
    for (size_t g = 0; g < m.num_groups; ++g) {
      const size_t index = row * m.num_groups + g;
      const float scale = float_at(m.scale_dtype, m.scales, index);
      const float offset = float_at(m.scale_dtype, m.zeros, index);
      for (size_t j = 0; j < m.group; ++j) {
        const size_t element = row * m.cols + g * m.group + j;
        const uint32_t code =
            bits == 8 ? byte_at(m.codes, element) : nibble_of(byte_at(m.codes, element / 2), element % 2);
        *to++ = scale * static_cast<float>(code) + offset;
      }
    }
  }
}

void read_mxfp4(const ForeignMatrix& m, const RowRange& rows, float* to) {
  const size_t first = rows.first * m.cols, count = rows.count * m.cols;
  decode_mxfp4(
      {reinterpret_cast<const uint8_t*>(m.codes) + first / 2, count / 2},
      {reinterpret_cast<const uint8_t*>(m.scales) + first / kMxfp4BlockSize, count / kMxfp4BlockSize},
      {to, count});
}

void read_awq(const ForeignMatrix& m, const RowRange& rows, float* to) {
  constexpr size_t kNibbleOf[kPerWord]{0, 4, 1, 5, 2, 6, 3, 7};  // nibble of each of 8 rows in a word
  const size_t words = m.rows / kPerWord;
  for (size_t c = 0; c < m.cols; ++c) {
    const size_t g = c / m.group;
    for (size_t i = 0; i < rows.count; ++i) {
      const size_t row = rows.first + i, at = kNibbleOf[row % kPerWord];
      const uint32_t code = nibble_of(packed_word(m.codes, c * words + row / kPerWord), at);
      const uint32_t zero = nibble_of(packed_word(m.zeros, g * words + row / kPerWord), at);
      to[i * m.cols + c] = (static_cast<float>(code) - static_cast<float>(zero)) *
                           float_at(m.scale_dtype, m.scales, g * m.rows + row);
    }
  }
}

void read_gptq(const ForeignMatrix& m, const RowRange& rows, float* to) {
  const size_t words = m.rows / kPerWord;
  for (size_t c = 0; c < m.cols; ++c) {
    const size_t g = m.group_of ? static_cast<size_t>(m.group_of[c]) : c / m.group;
    for (size_t i = 0; i < rows.count; ++i) {
      const size_t row = rows.first + i;
      const uint32_t code = nibble_of(packed_word(m.codes, c / kPerWord * m.rows + row), c % kPerWord);
      const uint32_t stored = nibble_of(packed_word(m.zeros, g * words + row / kPerWord), row % kPerWord);
      const uint32_t zero = (stored + m.zero_offset) & 15;
      to[i * m.cols + c] = (static_cast<float>(code) - static_cast<float>(zero)) *
                           float_at(m.scale_dtype, m.scales, g * m.rows + row);
    }
  }
}

void read_int4(const ForeignMatrix& m, const RowRange& rows, float* to) {
  for (size_t i = 0; i < rows.count; ++i) {
    const size_t row = rows.first + i;
    for (size_t c = 0; c < m.cols; ++c) {
      const size_t g = c / m.group;
      const uint32_t code = nibble_of(packed_word(m.codes, (row * m.cols + c) / kPerWord), c % kPerWord);
      const uint32_t zero =
          m.zeros ? nibble_of(packed_word(m.zeros, row / kPerWord * m.num_groups + g), row % kPerWord) : 8;
      *to++ = (static_cast<float>(code) - static_cast<float>(zero)) *
              float_at(m.scale_dtype, m.scales, row * m.num_groups + g);
    }
  }
}

void read_fp8(const ForeignMatrix& m, const RowRange& rows, float* to) {
  for (size_t i = 0; i < rows.count; ++i) {
    const size_t row = rows.first + i;
    const float scale = float_at(m.scale_dtype, m.scales, m.has_row_scales ? row : 0);
    for (size_t c = 0; c < m.cols; ++c) *to++ = to_float(E4m3{byte_at(m.codes, row * m.cols + c)}) * scale;
  }
}

struct LayoutRow {
  ForeignLayout layout;
  std::string_view name;
  size_t code_bits;  // bits per element; not used for kNvfp4Blocks (see code_bytes())
  void (*read)(const ForeignMatrix&, const RowRange&, float* to);
};
constexpr LayoutRow kLayouts[] = {
    // In the order of the enumeration.
    {ForeignLayout::kNvfp4, "NVFP4", 4, &read_nvfp4},
    {ForeignLayout::kNvfp4Columns, "NVFP4", 4, &read_nvfp4_columns},
    {ForeignLayout::kNvfp4Blocks, "NVFP4", 0, &read_nvfp4_blocks},
    {ForeignLayout::kMlx4, "MLX 4-bit", 4, &read_mlx<4>},
    {ForeignLayout::kMlx8, "MLX 8-bit", 8, &read_mlx<8>},
    {ForeignLayout::kMxfp4, "MXFP4", 4, &read_mxfp4},
    {ForeignLayout::kAwq, "AWQ 4-bit", 4, &read_awq},
    {ForeignLayout::kGptq, "GPTQ 4-bit", 4, &read_gptq},
    {ForeignLayout::kInt4, "INT4", 4, &read_int4},
    {ForeignLayout::kFp8, "FP8", 8, &read_fp8},
};

const LayoutRow& row_of(const ForeignMatrix& matrix) {
  const auto index = static_cast<size_t>(matrix.layout);
  NIBBLE_CHECK(index < std::size(kLayouts) && kLayouts[index].layout == matrix.layout, "layout {}", index);
  return kLayouts[index];
}

}  // namespace

std::string_view name(const ForeignMatrix& matrix) { return row_of(matrix).name; }

size_t code_bytes(const ForeignMatrix& matrix) {
  const size_t elements = matrix.rows * matrix.cols;
  if (matrix.layout == ForeignLayout::kNvfp4Blocks)
    return elements / block_elements(GgmlType::kNvfp4) * block_bytes(GgmlType::kNvfp4);
  return elements * row_of(matrix).code_bits / 8;
}

size_t stored_bytes(const ForeignMatrix& matrix) {
  using enum ForeignLayout;
  const size_t rows = matrix.rows, codes = code_bytes(matrix), num_scales = rows * matrix.num_groups;
  const size_t scale_bytes = num_scales * static_cast<size_t>(num_bits(matrix.scale_dtype)) / 8;
  switch (matrix.layout) {
    case kNvfp4:
    case kNvfp4Columns:
      return codes + rows * matrix.cols / kNvfp4Group;
    case kNvfp4Blocks:
      return codes;
    case kMxfp4:
      return codes + rows * matrix.cols / kMxfp4BlockSize;
    case kMlx4:
    case kMlx8:
      return codes + 2 * scale_bytes;
    case kAwq:
    case kGptq:
    case kInt4:
      return codes + scale_bytes + (matrix.zeros ? num_scales / 2 : 0);
    case kFp8:
      return codes +
             (matrix.has_row_scales ? rows : 1) * static_cast<size_t>(num_bits(matrix.scale_dtype)) / 8;
  }
  return codes;
}

void read_rows(const ForeignMatrix& matrix, size_t first, std::span<float> to) {
  const size_t count = to.size() / matrix.cols;
  NIBBLE_CHECK(to.size() == count * matrix.cols && first + count <= matrix.rows, "rows {} to {} of {}", first,
               first + count, matrix.rows);
  row_of(matrix).read(matrix, {first, count}, to.data());
}

}  // namespace nibble
