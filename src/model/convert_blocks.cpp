#include "model/convert_blocks.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "core/numbers/as_size.h"
#include "core/program/log.h"
#include "core/tensors/buffer.h"
#include "formats/foreign_matrix.h"
#include "formats/ggml_blocks.h"
#include "formats/mxfp4.h"
#include "model/stored_experts.h"

namespace nibble {
namespace {

// A matrix stored in blocks or by another program. For experts: the first of `count` consecutive ones.
// `group`: name in log lines.
struct BlockedMatrix {
  Matrix* matrix;
  size_t count;
  std::string_view group;

  size_t num_elements() const {
    return count * static_cast<size_t>(matrix->rows) * static_cast<size_t>(matrix->cols);
  }
  bool is_of_experts() const { return group == "experts"; }
  size_t element_bytes() const {
    return num_bytes(is_of_experts() ? Format::kMxfp4 : Format::kBf16, num_elements());
  }
  size_t stored_bytes() const {
    if (const ForeignMatrix* foreign = matrix->foreign()) return nibble::stored_bytes(*foreign);
    const GgmlType type = matrix->blocks()->type;
    return num_elements() / block_elements(type) * block_bytes(type);
  }
};

std::vector<BlockedMatrix> blocked_matrices(Weights& weights,
                                            const std::function<bool(const Matrix&)>& stays) {
  std::vector<BlockedMatrix> parts;
  const auto add = [&](Matrix& matrix, std::string_view group, size_t count = 1) {
    if ((matrix.blocks() || matrix.foreign()) && !stays(matrix)) parts.push_back({&matrix, count, group});
  };
  add(weights.embedding, "embedding");
  for (LayerWeights& layer : weights.layers) {
    for (Matrix* matrix : {&layer.q, &layer.k, &layer.v}) add(*matrix, "qkv");
    add(layer.o, "o");
    add(layer.router, "router");
    for (ExpertMatrices* experts : {&layer.gate_up, &layer.down})
      add(experts->first, "experts", static_cast<size_t>(weights.config.num_experts));
  }
  add(weights.unembedding, "lm_head");
  return parts;
}

// Converts `part` to elements in `to`; the matrix then views `to`. Returns false if a value was rounded.
bool convert_one(const BlockedMatrix& part, const Buffer& to, ThreadPool& pool) {
  if (const ForeignMatrix* stored = part.matrix->foreign()) {
    const ForeignMatrix foreign = *stored;
    part.matrix->stored = Elements{.format = Format::kBf16, .data = to.data()};
    return to_bf16(foreign, as_size(part.matrix->rows), to.as<Bf16>(), pool);
  }
  const Blocks blocks = *part.matrix->blocks();
  const size_t rows = part.count * static_cast<size_t>(part.matrix->rows),
               cols = static_cast<size_t>(part.matrix->cols);
  if (!part.is_of_experts()) {
    part.matrix->stored = Elements{.format = Format::kBf16, .data = to.data()};
    return to_bf16(blocks, rows, cols, to.as<Bf16>(), pool);
  }
  auto* codes = to.as<uint8_t>();
  auto* scales = codes + rows * cols / kMxfp4BlockSize * kMxfp4CodeBytes;
  part.matrix->stored = Elements{.format = Format::kMxfp4, .data = codes, .scales = scales};
  to_mxfp4(blocks, rows, cols, {.codes = codes, .scales = scales}, pool);
  return true;
}

// Rounds to BF16, ties to even. Returns whether every value is exact.
bool narrow(std::span<const float> values, Bf16* to) {
  bool is_exact = true;
  for (size_t i = 0; i < values.size(); ++i) {
    to[i] = nibble::to_bf16(values[i]);
    is_exact &= to_float(to[i]) == values[i];
  }
  return is_exact;
}

struct ConvertedGroup {
  size_t num_tensors{0}, bytes_before{0}, bytes_after{0};
  bool is_exact{true};
};

}  // namespace

bool to_bf16(const ForeignMatrix& matrix, size_t rows, Bf16* to, ThreadPool& pool) {
  // Rows are read in groups, because in some layouts neighbouring rows share 32-bit words.
  const size_t group = as_size(kExpertRows), cols = matrix.cols, groups = (rows + group - 1) / group;
  std::vector<std::vector<float>> wide(as_size(pool.num_threads()), std::vector<float>(group * cols));
  std::atomic<bool> is_exact{true};
  pool.for_each(static_cast<ptrdiff_t>(groups), [&](ptrdiff_t item, int thread) {
    const size_t first = static_cast<size_t>(item) * group, count = std::min(group, rows - first);
    const std::span<float> values = std::span(wide[as_size(thread)]).first(count * cols);
    read_rows(matrix, first, values);
    if (!narrow(values, to + first * cols)) is_exact = false;
  });
  return is_exact;
}

bool to_bf16(const Blocks& blocks, size_t rows, size_t cols, Bf16* to, ThreadPool& pool) {
  std::vector<std::vector<float>> wide(static_cast<size_t>(pool.num_threads()), std::vector<float>(cols));
  std::atomic<bool> is_exact{true};
  pool.for_each(static_cast<ptrdiff_t>(rows), [&](ptrdiff_t item, int thread) {
    const auto row = static_cast<size_t>(item);
    const std::span<float> values = wide[static_cast<size_t>(thread)];
    dequantise(blocks.type, row_of(blocks, row, cols), values);
    if (!narrow(values, to + row * cols)) is_exact = false;
  });
  return is_exact;
}

void to_mxfp4(const Blocks& blocks, size_t rows, size_t cols, const Mxfp4Output& to, ThreadPool& pool) {
  const size_t row_blocks = cols / kMxfp4BlockSize;
  pool.for_each(static_cast<ptrdiff_t>(rows), [&](ptrdiff_t item, int) {
    const auto row = static_cast<size_t>(item);
    std::span<uint8_t> row_codes, row_scales;
    if (to.codes) row_codes = {to.codes + row * row_blocks * kMxfp4CodeBytes, row_blocks * kMxfp4CodeBytes};
    if (to.scales) row_scales = {to.scales + row * row_blocks, row_blocks};
    const auto unpack = blocks.type == GgmlType::kMxfp4Ollama ? &split_mxfp4 : &unpack_mxfp4;
    unpack(row_of(blocks, row, cols), row_codes, row_scales);
  });
}

void convert_blocks(Weights& weights, const std::function<bool(const Matrix&)>& stays, ThreadPool& pool,
                    const ReportProgress& report) {
  struct Storage {
    std::shared_ptr<const void> original;
    std::vector<Buffer> converted;
  };
  const std::vector<BlockedMatrix> parts = blocked_matrices(weights, stays);
  if (parts.empty()) return;
  const auto storage = std::make_shared<Storage>(Storage{weights.storage, {}});
  size_t total = 0, done = 0;
  for (const BlockedMatrix& part : parts) total += part.element_bytes();
  std::map<std::pair<std::string_view, std::string>, ConvertedGroup> groups;
  for (const BlockedMatrix& part : parts) {
    ConvertedGroup& group = groups[{part.group, stored_name(*part.matrix)}];
    ++group.num_tensors;
    group.bytes_before += part.stored_bytes();
    group.bytes_after += part.element_bytes();
    storage->converted.emplace_back(part.element_bytes());
    group.is_exact &= convert_one(part, storage->converted.back(), pool);
    done += part.element_bytes();
    if (report) report(done, total);
  }
  weights.storage = storage;
  for (const auto& [key, group] : groups)
    log::info("{}: {} tensors of {} {}, {}, {} bytes to {}", key.first, group.num_tensors, key.second,
              key.first == "experts" ? "repacked" : "to BF16",
              group.is_exact ? "exact" : "rounded to nearest", group.bytes_before, group.bytes_after);
}

bool describe_f32_as_blocks(Weights& weights) {
  bool has_any = false;
  const auto describe = [&](Matrix& matrix) {
    const auto* elements = std::get_if<Elements>(&matrix.stored);
    if (!elements || elements->format != Format::kF32) return;
    matrix.stored = Blocks{.type = GgmlType::kF32, .rows = static_cast<const std::byte*>(elements->data)};
    has_any = true;
  };
  describe(weights.embedding);
  describe(weights.unembedding);
  for (LayerWeights& layer : weights.layers)
    for (Matrix* matrix : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.router}) describe(*matrix);
  return has_any;
}

std::shared_ptr<const Weights> with_elements(std::shared_ptr<const Weights> weights, bool takes_blocks,
                                             ThreadPool& pool, const ReportProgress& report) {
  if (!has_blocks(*weights)) return weights;
  Weights converted = *weights;
  std::vector<const Matrix*> routers, experts;
  for (const LayerWeights& layer : converted.layers) {
    routers.push_back(&layer.router);
    experts.insert(experts.end(), {&layer.gate_up.first, &layer.down.first});
  }
  const auto is_one_of = [](const std::vector<const Matrix*>& matrices, const Matrix& matrix) {
    return std::ranges::find(matrices, &matrix) != matrices.end();
  };
  const auto stays = [&](const Matrix& matrix) {
    if (matrix.foreign() || !takes_blocks || is_one_of(routers, matrix)) return false;
    if (is_one_of(experts, matrix))
      return true;  // decide_experts() left them in a type that the backend reads
    const GgmlType type = matrix.blocks()->type;
    return &matrix == &converted.embedding || type == GgmlType::kQ8_0 || is_mxfp4(type);
  };
  convert_blocks(converted, stays, pool, report);
  return std::make_shared<const Weights>(std::move(converted));
}

}  // namespace nibble
