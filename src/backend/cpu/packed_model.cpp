#include "backend/cpu/packed_model.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "backend/cpu/isa/kernels.h"
#include "core/program/log.h"
#include "model/convert_blocks.h"

namespace nibble::cpu {
namespace {

// Returns whether matrices, stacked by rows, can be packed as one matrix, in their stored format (`to` =
// kBf16) or quantised to MXFP4. Three conditions must hold: rows are whole blocks; all parts have the same
// format, because a panel has one format; no strip spans two parts (each part has a multiple of `part_rows`
// rows).
bool becomes_strips(std::span<const Matrix> parts, Format to, int part_rows, int strip_rows) {
  if (part_rows % strip_rows != 0 || parts[0].cols % kBlock != 0) return false;
  if (to != Format::kBf16) return to == Format::kMxfp4;
  for (const Matrix& part : parts)
    if (!is_packable(part, strip_rows) || part.format() != parts[0].format()) return false;
  return true;
}

struct Bytes {
  int num_matrices{0};
  size_t before{0}, after{0};
};
using Groups = std::map<std::tuple<std::string_view, Format, Format>, Bytes>;

class Packer {
 public:
  Packer(Weights& kept, const DenseFormats& dense, int strip_rows, ThreadPool& pool)
      : kept_(kept), dense_(dense), strip_rows_(strip_rows), pool_(pool) {}

  bool takes_qkv(const LayerWeights& layer) const {
    const Matrix parts[]{layer.q, layer.k, layer.v};
    return becomes_strips(parts, dense_.qkv, kept_.config.head_dim, strip_rows_);
  }
  bool takes_o(const LayerWeights& layer) const {
    return becomes_strips({&layer.o, 1}, dense_.attention_output, layer.o.rows, strip_rows_);
  }
  bool takes_unembedding() const {
    return becomes_strips({&kept_.unembedding, 1}, dense_.unembedding, kept_.unembedding.rows, strip_rows_);
  }

  // Packs `parts`, matrices of a layer or the LM head, into one matrix. The original matrices keep only their
  // shapes.
  std::optional<PackedMatrix> take(std::string_view group, Format to, std::span<Matrix* const> parts) {
    std::vector<QuantisedMatrix> quantised;
    std::vector<Matrix> matrices;
    for (Matrix* part : parts) {
      const auto rows = static_cast<size_t>(part->rows), cols = static_cast<size_t>(part->cols);
      const Format before = part->format(), after = to == Format::kMxfp4 ? to : before;
      if (before != after) quantised.push_back(quantise(*part, after, pool_));
      matrices.push_back(before == after ? *part : quantised.back().matrix);
      Bytes& bytes = groups_[{group, before, after}];
      ++bytes.num_matrices;
      bytes.before += matrix_bytes(before, rows, cols);
      bytes.after += matrix_bytes(after, rows, cols);
      part->stored = {};
    }
    return pack_below(matrices, strip_rows_, kept_.is_mapped() && quantised.empty(), pool_);
  }
  // Packs and returns the experts of a layer; returns nothing if their format has no strips.
  std::optional<PackedExperts> take_experts(LayerWeights& layer) {
    if (!is_packable(layer.gate_up.first, strip_rows_) || !is_packable(layer.down.first, strip_rows_))
      return std::nullopt;
    // Converted experts are not in a mapped file.
    const bool is_mapped = kept_.is_mapped() && !layer.experts_storage;
    const auto take = [&](Matrix& first) {
      PackedMatrix packed = pack(first, kept_.config.experts().count, strip_rows_, is_mapped, pool_);
      first.stored = {};
      return packed;
    };
    PackedExperts packed{take(layer.gate_up.first), take(layer.down.first)};
    layer.experts_storage.reset();
    return packed;
  }

  void log() const {
    for (const auto& [key, bytes] : groups_) {
      const auto& [group, before, after] = key;
      if (before != after) log_conversion(group, before, after, bytes.before, bytes.after);
      log::info("{}: {} matrices of {} in strips", group, bytes.num_matrices, name(after));
    }
  }

 private:
  Weights& kept_;
  DenseFormats dense_;
  int strip_rows_;
  ThreadPool& pool_;
  Groups groups_;
};

}  // namespace

PackedModel pack_model(std::shared_ptr<const Weights> weights, const DenseFormats& dense, int strip_rows,
                       ThreadPool& pool, const ReportProgress& report) {
  Weights kept = *weights;
  Meter layers_done(kept.layers.size() + 1, report);
  Packer packer(kept, dense, strip_rows, pool);
  // Dense matrices that are neither packed nor quantised. If they are in ggml blocks, they are converted to
  // elements, because float kernels read only elements.
  std::vector<const Matrix*> left;
  if (dense.unembedding == Format::kBf16 && !packer.takes_unembedding()) left.push_back(&kept.unembedding);
  for (const LayerWeights& layer : kept.layers) {
    if (dense.qkv == Format::kBf16 && !packer.takes_qkv(layer))
      left.insert(left.end(), {&layer.q, &layer.k, &layer.v});
    if (dense.attention_output == Format::kBf16 && !packer.takes_o(layer)) left.push_back(&layer.o);
  }
  convert_blocks(
      kept, [&](const Matrix& matrix) { return std::ranges::find(left, &matrix) == left.end(); }, pool);
  weights.reset();

  PackedModel model;
  bool is_qkv_taken = true, is_o_taken = true;
  for (LayerWeights& layer : kept.layers) {
    PackedLayer& packed = model.layers.emplace_back();
    packed.experts = packer.take_experts(layer);
    if (packer.takes_qkv(layer)) {
      Matrix* const parts[]{&layer.q, &layer.k, &layer.v};
      packed.qkv = packer.take("qkv", dense.qkv, parts);
    }
    if (packer.takes_o(layer)) {
      Matrix* const parts[]{&layer.o};
      packed.o = packer.take("o", dense.attention_output, parts);
    }
    is_qkv_taken &= packed.qkv.has_value();
    is_o_taken &= packed.o.has_value();
    layers_done.add(1);
  }
  if (packer.takes_unembedding()) {
    Matrix* const parts[]{&kept.unembedding};
    model.unembedding = packer.take("lm_head", dense.unembedding, parts);
  }
  layers_done.add(1);
  packer.log();
  model.weights = quantise_dense(
      std::make_shared<const Weights>(std::move(kept)),
      {is_qkv_taken ? Format::kBf16 : dense.qkv, is_o_taken ? Format::kBf16 : dense.attention_output,
       model.unembedding ? Format::kBf16 : dense.unembedding},
      pool);
  return model;
}

}  // namespace nibble::cpu
