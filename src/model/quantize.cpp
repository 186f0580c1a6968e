#include "model/quantize.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/numbers/as_size.h"
#include "core/numbers/e4m3.h"
#include "core/program/log.h"
#include "formats/foreign_matrix.h"
#include "formats/ggml_blocks.h"
#include "formats/mxfp4.h"

namespace nibble {
namespace {

constexpr float kE4m3Max{448};

// Calls visit(name, format, matrices) for each group of matrices to convert. `name`: the group in log lines.
template <typename Visit>
void for_each_converted(Weights& weights, const DenseFormats& formats, const Visit& visit) {
  std::vector<Matrix*> qkv, o;
  for (LayerWeights& layer : weights.layers) {
    qkv.insert(qkv.end(), {&layer.q, &layer.k, &layer.v});
    o.push_back(&layer.o);
  }
  if (formats.qkv != Format::kBf16) visit("qkv", formats.qkv, qkv);
  if (formats.attention_output != Format::kBf16) visit("o", formats.attention_output, o);
  if (formats.unembedding != Format::kBf16)
    visit("lm_head", formats.unembedding, std::vector<Matrix*>{&weights.unembedding});
}

struct Storage {  // converted matrices, and the weights that hold all other matrices
  std::shared_ptr<const Weights> original;
  std::vector<Buffer> buffers;
};

}  // namespace

void read_row(const Matrix& matrix, size_t row, std::span<float> to) {
  if (const ForeignMatrix* foreign = matrix.foreign()) {
    read_rows(*foreign, row, to);
  } else if (const Blocks* blocks = matrix.blocks()) {
    dequantise(blocks->type, row_of(*blocks, row, to.size()), to);
  } else if (const Elements& elements = matrix.elements(); elements.format == Format::kF32) {
    std::copy_n(static_cast<const float*>(elements.data) + row * to.size(), to.size(), to.begin());
  } else if (elements.format == Format::kE4m3) {
    const uint8_t* from = static_cast<const uint8_t*>(elements.data) + row * to.size();
    const float scale = elements.row_scales[row];
    std::transform(from, from + to.size(), to.begin(),
                   [scale](uint8_t code) { return to_float(E4m3{code}) * scale; });
  } else {
    const Bf16* from = static_cast<const Bf16*>(elements.data) + row * to.size();
    std::transform(from, from + to.size(), to.begin(), [](Bf16 x) { return to_float(x); });
  }
}

bool fit_in_bf16(std::span<const float> values) {
  return std::ranges::all_of(values, [](float x) { return std::isfinite(to_float(to_bf16(x))); });
}

float quantise_e4m3(std::span<const float> row, std::span<uint8_t> codes) {
  NIBBLE_CHECK(row.size() == codes.size(), "{} values, {} codes", row.size(), codes.size());
  float largest = 0;
  for (const float value : row) {
    const float magnitude = std::abs(value);
    if (!(magnitude <= largest)) largest = magnitude;  // a NaN becomes the largest, too
    if (std::isnan(largest)) break;
  }
  const float quotient = largest / kE4m3Max;
  const float scale = quotient == 0 ? 1 : quotient;
  for (size_t i = 0; i < row.size(); ++i) codes[i] = to_e4m3(row[i] / scale).bits;
  return scale;
}

QuantisedMatrix quantise(const Matrix& matrix, Format format, ThreadPool& pool) {
  NIBBLE_CHECK(matrix.blocks() || matrix.format() == Format::kF32 || matrix.format() == Format::kBf16 ||
                   matrix.format() == Format::kE4m3,
               "can't quantise {}", name(matrix.format()));
  NIBBLE_CHECK(format == Format::kE4m3 || format == Format::kMxfp4, "can't quantise to {}", name(format));
  const size_t rows = as_size(matrix.rows), cols = as_size(matrix.cols);
  const bool is_fp8 = format == Format::kE4m3;
  // The storage holds the codes, then the scales, which are aligned for a float.
  const size_t row_codes = is_fp8 ? cols : cols / 2, row_scales = is_fp8 ? 1 : cols / kMxfp4BlockSize;
  const size_t code_bytes =
      (rows * row_codes + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
  QuantisedMatrix result{{matrix.rows, matrix.cols, {}},
                         Buffer(code_bytes + rows * row_scales * (is_fp8 ? sizeof(float) : 1))};
  auto* codes = result.storage.as<uint8_t>();
  auto* block_scales = codes + code_bytes;
  auto* scales = reinterpret_cast<float*>(block_scales);

  std::vector<std::vector<float>> wide(as_size(pool.num_threads()), std::vector<float>(cols));
  pool.for_each(matrix.rows, [&](ptrdiff_t item, int thread) {
    const auto row = static_cast<size_t>(item);
    const std::span<float> values = wide[as_size(thread)];
    const std::span<uint8_t> to(codes + row * row_codes, row_codes);
    read_row(matrix, row, values);
    if (is_fp8)
      scales[row] = quantise_e4m3(values, to);
    else
      encode_mxfp4(values, to, {block_scales + row * row_scales, row_scales});
  });
  result.matrix.stored = Elements{format, codes, is_fp8 ? nullptr : block_scales, is_fp8 ? scales : nullptr};
  return result;
}

std::shared_ptr<const Weights> quantise_dense(std::shared_ptr<const Weights> weights,
                                              const DenseFormats& formats, ThreadPool& pool) {
  if (formats == DenseFormats{}) return weights;
  Weights converted = *weights;
  const auto storage = std::make_shared<Storage>(Storage{std::move(weights), {}});
  for_each_converted(
      converted, formats, [&](std::string_view group, Format format, const std::vector<Matrix*>& matrices) {
        const Format before = matrices.front()->format();
        ConvertedBytes bytes;
        for (Matrix* matrix : matrices) {
          if (matrix->format() == format) continue;  // the matrix has this format already, for example FP8
          if (format == Format::kMxfp4 && as_size(matrix->cols) % kMxfp4BlockSize != 0)
            throw InputError(
                "{}: {} has rows of {} elements, but MXFP4 needs whole blocks of {}: leave it out of "
                "--mxfp4-layers",
                converted.source, group, matrix->cols, kMxfp4BlockSize);
          bytes.before += matrix_bytes(matrix->format(), as_size(matrix->rows), as_size(matrix->cols));
          QuantisedMatrix made = quantise(*matrix, format, pool);
          *matrix = made.matrix;
          storage->buffers.push_back(std::move(made.storage));
          bytes.after += matrix_bytes(format, as_size(matrix->rows), as_size(matrix->cols));
        }
        if (bytes.after > 0) log_conversion(group, before, format, bytes.before, bytes.after);
      });
  converted.storage = storage;
  return std::make_shared<const Weights>(std::move(converted));
}

ConvertedBytes converted_bytes(const Config& config, const DenseFormats& formats) {
  ConvertedBytes bytes;
  const auto add = [&](Format format, int rows, int cols, int count) {
    if (format == Format::kBf16) return;
    // An incomplete last block of a row counts as a whole one here; quantise_dense() refuses such rows.
    const size_t held = format == Format::kMxfp4
                            ? (as_size(cols) + kMxfp4BlockSize - 1) / kMxfp4BlockSize * kMxfp4BlockSize
                            : as_size(cols);
    bytes.before += as_size(count) * matrix_bytes(Format::kBf16, as_size(rows), as_size(cols));
    bytes.after += as_size(count) * matrix_bytes(format, as_size(rows), held);
  };
  const int q_rows = config.num_heads * config.head_dim, kv_rows = config.num_kv_heads * config.head_dim;
  add(formats.qkv, q_rows + 2 * kv_rows, config.hidden, config.num_layers);
  add(formats.attention_output, config.hidden, q_rows, config.num_layers);
  add(formats.unembedding, config.vocab, config.hidden, 1);
  return bytes;
}

void log_conversion(std::string_view group, Format before, Format after, size_t bytes_before,
                    size_t bytes_after) {
  log::info("{}: {} to {}, {} bytes to {}", group, name(before), name(after), bytes_before, bytes_after);
}

}  // namespace nibble
