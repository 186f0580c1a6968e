#include "model/adapter/merge_adapters.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/numbers/as_size.h"
#include "core/tensors/buffer.h"
#include "formats/foreign_matrix.h"
#include "model/quantize.h"
#include "model/stored_experts.h"

namespace nibble {
namespace {

using Place = std::pair<int, AdaptedMatrix>;  // layer and matrix

Matrix& dense_matrix(Weights& weights, const Place& place) {
  const auto& [layer, matrix] = place;
  LayerWeights& of_layer = weights.layers[as_size(layer)];
  switch (matrix) {
    case AdaptedMatrix::kEmbedding:
      return weights.embedding;
    case AdaptedMatrix::kUnembedding:
      return weights.unembedding;
    case AdaptedMatrix::kQ:
      return of_layer.q;
    case AdaptedMatrix::kK:
      return of_layer.k;
    case AdaptedMatrix::kV:
      return of_layer.v;
    case AdaptedMatrix::kO:
      return of_layer.o;
    case AdaptedMatrix::kRouter:
      return of_layer.router;
    default:
      NIBBLE_CHECK(false, "{} is of experts", name(matrix));
  }
}

bool is_of_experts(AdaptedMatrix matrix) {
  return matrix == AdaptedMatrix::kGateUp || matrix == AdaptedMatrix::kDown;
}

// Memory of a merged matrix: its elements in a format, written one row at a time.
class MergedMatrix {
 public:
  MergedMatrix(const Matrix& base, Format format)
      : rows_(as_size(base.rows)), cols_(as_size(base.cols)), format_(format) {
    codes_ =
        (num_bytes(format, rows_ * cols_) + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
    storage_ = Buffer(codes_ + (format == Format::kE4m3 ? rows_ * sizeof(float) : 0));
  }

  void write(size_t row, std::span<const float> values) const {
    if (format_ == Format::kF32)
      std::ranges::copy(values, storage_.as<float>() + row * cols_);
    else if (format_ == Format::kE4m3)
      row_scales()[row] = quantise_e4m3(values, {storage_.as<uint8_t>() + row * cols_, cols_});
    else
      std::ranges::transform(values, storage_.as<Bf16>() + row * cols_, [](float x) { return to_bf16(x); });
  }
  Elements elements() const {
    return {.format = format_,
            .data = storage_.data(),
            .row_scales = format_ == Format::kE4m3 ? row_scales() : nullptr};
  }
  Buffer take_storage() { return std::move(storage_); }

 private:
  float* row_scales() const { return reinterpret_cast<float*>(storage_.data() + codes_); }

  size_t rows_, cols_;
  Format format_;
  size_t codes_{0};  // bytes before the scales
  Buffer storage_;
};

// Returns the format of a dense matrix after merging.
Format merged_format(const Matrix& matrix) {
  const bool stays =
      !matrix.blocks() && (matrix.format() == Format::kF32 || matrix.format() == Format::kE4m3);
  return stays ? matrix.format() : Format::kBf16;
}

// Returns zeros, aligned as in a Buffer. The system assigns memory only to pages that are written.
std::shared_ptr<const void> make_zeros(size_t bytes) {
  size_t space = bytes + Buffer::kAlignment;
  std::shared_ptr<void> owner(std::calloc(space, 1), std::free);
  void* aligned = owner.get();
  if (!aligned || !std::align(Buffer::kAlignment, bytes, aligned, space)) throw std::bad_alloc();
  return {owner, aligned};
}

// Releases the pages of a mapped file that hold a dense matrix.
void release(const Matrix& matrix) {
  if (const ForeignMatrix* foreign = matrix.foreign())
    return release_pages({foreign->codes, code_bytes(*foreign)});
  const size_t rows = as_size(matrix.rows), cols = as_size(matrix.cols);
  if (const Blocks* blocks = matrix.blocks())
    return release_pages({blocks->rows, rows * row_of(*blocks, 0, cols).size()});
  const Elements& elements = matrix.elements();
  release_pages({static_cast<const std::byte*>(elements.data), num_bytes(elements.format, rows * cols)});
}

// Calls visit(place, expert, update) for every update of experts if of_experts is set, otherwise for every
// update of dense matrices. `update.scale` includes the scale of the ScaledAdapter.
template <typename Visit>
void for_each_update(std::span<const ScaledAdapter> adapters, bool of_experts, const Visit& visit) {
  for (const auto& [adapter, scale] : adapters)
    for (const MatrixUpdate& part : adapter->updates) {
      if (is_of_experts(part.matrix) != of_experts) continue;
      LowRankUpdate update = part.update;
      update.scale *= scale;
      visit(Place{part.layer, part.matrix}, part.expert, update);
    }
}

// Writes `base` plus the updates to `to`. Returns false if a value is not finite or would round to infinity
// in BF16.
bool merge(const Matrix& base, std::span<const LowRankUpdate> updates, const MergedMatrix& to,
           ThreadPool& pool) {
  constexpr int kRows{32};
  const size_t cols = as_size(base.cols);
  std::atomic<bool> is_finite{true};
  pool.for_each((base.rows + kRows - 1) / kRows, [&](ptrdiff_t item, int) {
    const int first = static_cast<int>(item) * kRows, count = std::min(kRows, base.rows - first);
    std::vector<float> values(as_size(count) * cols);
    const auto row = [&](int r) { return std::span(values).subspan(as_size(r) * cols, cols); };
    for (int r = 0; r < count; ++r) read_row(base, as_size(first + r), row(r));
    for (const LowRankUpdate& update : updates) add_update(update, first, cols, values);
    if (fit_in_bf16(values))
      for (int r = 0; r < count; ++r) to.write(as_size(first + r), row(r));
    else
      is_finite = false;
  });
  return is_finite;
}

}  // namespace

std::shared_ptr<const Weights> with_expert_updates(std::shared_ptr<const Weights> weights,
                                                   std::span<const ScaledAdapter> adapters) {
  std::map<Place, ExpertUpdates> all;
  const int num_experts = weights->config.num_experts;
  for_each_update(adapters, true, [&](const Place& place, int expert, const LowRankUpdate& update) {
    auto& of_expert = all[place].of_expert;
    of_expert.resize(as_size(num_experts));
    of_expert[as_size(expert)].push_back(update);
  });
  if (all.empty()) return weights;
  Weights changed = *weights;
  for (auto& [place, updates] : all) {
    LayerWeights& layer = changed.layers[as_size(place.first)];
    Matrix& first = (place.second == AdaptedMatrix::kGateUp ? layer.gate_up : layer.down).first;
    auto stored = first.experts() ? std::optional(*first.experts()) : stored_experts(first, num_experts);
    NIBBLE_CHECK(stored && !stored->updates, "experts of {}", stored_name(first));
    for (const ScaledAdapter& scaled : adapters) updates.storage.push_back(scaled.adapter->storage);
    stored->updates = std::make_shared<const ExpertUpdates>(std::move(updates));
    first.stored = std::make_shared<const StoredExperts>(std::move(*stored));
  }
  return std::make_shared<const Weights>(std::move(changed));
}

MergedWeights merge_into_dense(const Weights& weights, std::span<const ScaledAdapter> adapters,
                               ThreadPool& pool, const ReportProgress& report) {
  struct Storage {
    std::shared_ptr<const void> original;
    std::vector<Buffer> merged;
  };
  std::map<Place, std::vector<LowRankUpdate>> all;
  for_each_update(adapters, false, [&](const Place& place, int, const LowRankUpdate& update) {
    all[place].push_back(update);
  });
  Weights made = weights;
  const auto storage = std::make_shared<Storage>(Storage{weights.storage, {}});
  size_t done = 0, bytes = 0;
  for (const auto& [place, updates] : all) {
    Matrix& matrix = dense_matrix(made, place);
    MergedMatrix merged(matrix, merged_format(matrix));
    if (!merge(matrix, updates, merged, pool))
      throw InputError("{}: merged with the adapter, {} has values that are not finite numbers",
                       weights.source, name_in(place.second, place.first));
    if (made.is_mapped()) release(matrix);
    matrix.stored = merged.elements();
    storage->merged.push_back(merged.take_storage());
    bytes += storage->merged.back().bytes();
    if (report) report(++done, all.size());
  }
  made.storage = storage;
  return {std::make_shared<const Weights>(std::move(made)), bytes};
}

std::shared_ptr<const Weights> describe_merged(std::shared_ptr<const Weights> weights,
                                               std::span<const ScaledAdapter> adapters) {
  std::set<Place> places;
  for_each_update(adapters, false,
                  [&](const Place& place, int, const LowRankUpdate&) { places.insert(place); });
  if (places.empty()) return weights;
  Weights described = *weights;
  size_t most = 0;
  for (const Place& place : places) {
    const Matrix& matrix = dense_matrix(described, place);
    most = std::max(most, matrix_bytes(merged_format(matrix), as_size(matrix.rows), as_size(matrix.cols)));
  }
  const std::shared_ptr<const void> zeros = make_zeros(most);  // of all matrices
  for (const Place& place : places) {
    Matrix& matrix = dense_matrix(described, place);
    const Format format = merged_format(matrix);
    const auto* row_scales = format == Format::kE4m3 ? static_cast<const float*>(zeros.get()) : nullptr;
    matrix.stored = Elements{.format = format, .data = zeros.get(), .row_scales = row_scales};
  }
  described.storage =
      std::make_shared<const std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
          weights->storage, zeros);
  return std::make_shared<const Weights>(std::move(described));
}

}  // namespace nibble
