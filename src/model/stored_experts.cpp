#include "model/stored_experts.h"

#include <algorithm>
#include <cstring>

#include "core/errors/check.h"
#include "core/numbers/as_size.h"
#include "core/numbers/bf16.h"
#include "core/numbers/f16.h"
#include "formats/foreign_matrix.h"
#include "formats/ggml_blocks.h"
#include "formats/mxfp4.h"
#include "model/adapter/low_rank.h"

namespace nibble {
namespace {

// Returns the bytes of `cols` elements of a row.
size_t row_bytes(const ExpertTensor& tensor, size_t cols) {
  if (const auto* ggml = std::get_if<GgmlType>(&tensor.type))
    return cols / block_elements(*ggml) * block_bytes(*ggml);
  const DType dtype = std::get<DType>(tensor.type);
  return dtype == DType::kU8 ? cols / 2 : cols * static_cast<size_t>(num_bits(dtype)) / 8;
}

// Whether ranges of `bytes` bytes at these places follow each other without gaps.
bool are_consecutive(const std::vector<const std::byte*>& places, size_t bytes) {
  for (size_t e = 0; e < places.size(); ++e)
    if (places[e] != places[0] + e * bytes) return false;
  return true;
}

// Returns an element of a type that may be unaligned in a file.
template <typename T>
float element(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return to_float(value);
}

struct Strides {
  size_t row, col;  // distances of rows and of columns, in elements
};

template <typename T>
void read_floats(const std::byte* from, const Strides& strides, size_t cols, std::span<float> to) {
  const size_t count = to.size() / cols;
  if (strides.col == 1) {
    for (size_t r = 0; r < count; ++r)
      for (size_t c = 0; c < cols; ++c)
        to[r * cols + c] = element<T>(from + (r * strides.row + c) * sizeof(T));
    return;
  }
  for (size_t c = 0; c < cols; ++c)  // transposed: `count` adjacent elements of each column
    for (size_t r = 0; r < count; ++r)
      to[r * cols + c] = element<T>(from + (r * strides.row + c * strides.col) * sizeof(T));
}

// Consecutive rows of `expert`, from `first` on. num_rows: number of rows that each expert has in the tensor.
struct TensorRows {
  size_t expert, first, num_rows, cols;
};
void read_tensor(const ExpertTensor& tensor, const TensorRows& which, std::span<float> to) {
  const auto& [expert, first, num_rows, cols] = which;
  if (tensor.foreign) return read_rows((*tensor.foreign)[expert], first, to);
  const size_t count = to.size() / cols, bytes = row_bytes(tensor, cols);
  const std::byte* from = tensor.experts[expert];
  if (const auto* ggml = std::get_if<GgmlType>(&tensor.type))
    return dequantise(*ggml, {from + first * bytes, count * bytes}, to);
  const DType dtype = std::get<DType>(tensor.type);
  if (dtype == DType::kU8) {
    const size_t blocks = cols / kMxfp4BlockSize;
    const auto* codes = reinterpret_cast<const uint8_t*>(from + first * bytes);
    const auto* scales = reinterpret_cast<const uint8_t*>(tensor.scales[expert] + first * blocks);
    return decode_mxfp4({codes, count * bytes}, {scales, count * blocks}, to);
  }
  const Strides strides = tensor.is_transposed ? Strides{1, num_rows} : Strides{cols, 1};
  from += first * strides.row * static_cast<size_t>(num_bits(dtype)) / 8;
  if (dtype == DType::kBf16) return read_floats<Bf16>(from, strides, cols, to);
  if (dtype == DType::kF16) return read_floats<F16>(from, strides, cols, to);
  NIBBLE_CHECK(dtype == DType::kF32, "experts of {}", dtype);
  read_floats<float>(from, strides, cols, to);
}

}  // namespace

size_t expert_bytes(const ExpertTensor& tensor, size_t rows, size_t cols) {
  return tensor.foreign ? stored_bytes(tensor.foreign->front()) : rows * row_bytes(tensor, cols);
}

std::span<const std::byte> codes_of(const ExpertTensor& tensor, size_t expert, size_t rows, size_t cols) {
  if (!tensor.foreign) return {tensor.experts[expert], rows * row_bytes(tensor, cols)};
  const ForeignMatrix& matrix = (*tensor.foreign)[expert];
  return {matrix.codes, code_bytes(matrix)};
}

std::vector<const std::byte*> consecutive(const void* first, size_t bytes, int count) {
  std::vector<const std::byte*> all;
  for (int i = 0; i < count; ++i) all.push_back(static_cast<const std::byte*>(first) + as_size(i) * bytes);
  return all;
}

std::optional<StoredExperts> stored_experts(const Matrix& first, int num_experts) {
  const size_t elements = as_size(first.rows) * as_size(first.cols);
  if (const Blocks* blocks = first.blocks()) {
    const size_t tensors = blocks->odd_rows ? 2 : 1;
    const size_t bytes = elements / tensors / block_elements(blocks->type) * block_bytes(blocks->type);
    const auto tensor = [&](const std::byte* rows) {
      return ExpertTensor{.type = blocks->type, .experts = consecutive(rows, bytes, num_experts)};
    };
    StoredExperts stored{.rows = tensor(blocks->rows)};
    if (blocks->odd_rows) stored.odd_rows = tensor(blocks->odd_rows);
    return stored;
  }
  const auto* codes = std::get_if<Elements>(&first.stored);
  if (!codes || codes->format != Format::kMxfp4) return std::nullopt;
  return StoredExperts{
      .rows = {.type = DType::kU8,
               .experts = consecutive(codes->data, elements / 2, num_experts),
               .scales = consecutive(codes->scales, elements / kMxfp4BlockSize, num_experts)}};
}

bool has_foreign(const StoredExperts& stored) {
  return stored.rows.foreign || (stored.odd_rows && stored.odd_rows->foreign);
}

std::optional<Elements> as_elements(const StoredExperts& stored, const Matrix& first) {
  if (has_foreign(stored)) return std::nullopt;
  const std::vector<const std::byte*>& experts = stored.rows.experts;
  const auto* dtype = std::get_if<DType>(&stored.rows.type);
  const size_t rows = as_size(first.rows);
  if (stored.updates || stored.odd_rows || !dtype || stored.rows.is_transposed ||
      !are_consecutive(experts, rows * row_bytes(stored.rows, as_size(first.cols))))
    return std::nullopt;
  if (*dtype == DType::kBf16) return Elements{.format = Format::kBf16, .data = experts[0]};
  if (*dtype == DType::kF32) return Elements{.format = Format::kF32, .data = experts[0]};
  return std::nullopt;
}

std::optional<Blocks> as_blocks(const StoredExperts& stored, const Matrix& first) {
  const auto* type = std::get_if<GgmlType>(&stored.rows.type);
  if (!type || stored.updates || has_foreign(stored)) return std::nullopt;
  const size_t tensors = stored.odd_rows ? 2 : 1;
  const size_t bytes = as_size(first.rows) / tensors * row_bytes(stored.rows, as_size(first.cols));
  if (!are_consecutive(stored.rows.experts, bytes)) return std::nullopt;
  Blocks blocks{*type, stored.rows.experts[0], nullptr};
  if (!stored.odd_rows) return blocks;
  if (stored.odd_rows->type != stored.rows.type || !are_consecutive(stored.odd_rows->experts, bytes))
    return std::nullopt;
  blocks.odd_rows = stored.odd_rows->experts[0];
  return blocks;
}

namespace {

// Decodes rows without the updates of adapters.
void read_from_file(const StoredExperts& stored, const Matrix& first, const ExpertRows& which,
                    std::span<float> to) {
  const size_t cols = as_size(first.cols), rows = as_size(first.rows), expert = as_size(which.expert);
  const size_t first_row = as_size(which.first_row), count = as_size(which.count);
  NIBBLE_CHECK(to.size() == count * cols && which.count <= kExpertRows, "{} rows into {} floats", count,
               to.size());
  if (!stored.odd_rows) return read_tensor(stored.rows, {expert, first_row, rows, cols}, to);
  NIBBLE_CHECK(first_row % 2 == 0 && count % 2 == 0, "rows {} to {}", first_row, first_row + count);
  std::vector<float> half(count / 2 * cols);
  for (const size_t odd : {0u, 1u}) {
    read_tensor(odd == 0 ? stored.rows : *stored.odd_rows, {expert, first_row / 2, rows / 2, cols}, half);
    for (size_t r = 0; r < count / 2; ++r) std::copy_n(&half[r * cols], cols, &to[(2 * r + odd) * cols]);
  }
}

}  // namespace

void read_rows(const StoredExperts& stored, const Matrix& first, const ExpertRows& which,
               std::span<float> to) {
  read_from_file(stored, first, which, to);
  if (!stored.updates) return;
  for (const LowRankUpdate& update : stored.updates->of_expert[as_size(which.expert)])
    add_update(update, which.first_row, as_size(first.cols), to);
}

}  // namespace nibble
