#include "backend/cpu/packed_model.h"

#include <utility>

#include "backend/cpu/isa/kernels.h"

namespace nibble::cpu {
namespace {

// What is to become of a dense matrix.
struct Plan {
  Format to;  // kBf16: stays in the format it has
  bool is_packed;
};

// Strips of a group are all of one format: the kernels know that of a panel, not of a row.
Plan plan_for(std::span<const Matrix> group, Format to, int part_rows, int strip_rows) {
  const bool makes_strips = part_rows % strip_rows == 0 && group[0].cols % kBlock == 0;
  if (to != Format::kBf16) return {to, to == Format::kMxfp4 && makes_strips};
  for (const Matrix& matrix : group)
    if (!is_packable(matrix, strip_rows) || stored_format(matrix) != stored_format(group[0]))
      return {to, false};
  return {to, makes_strips};
}

}  // namespace

PackedModel pack_model(std::shared_ptr<const Weights> weights, const DenseFormats& dense, int strip_rows,
                       ThreadPool& pool) {
  const LayerWeights& like = weights->layers.front();
  const int head_dim = weights->config.head_dim;
  const Matrix like_qkv[]{like.q, like.k, like.v};
  const Plan qkv = plan_for(like_qkv, dense.qkv, head_dim, strip_rows),
             o = plan_for({&like.o, 1}, dense.attention_output, like.o.rows, strip_rows),
             unembedding = plan_for({&weights->unembedding, 1}, dense.unembedding, weights->unembedding.rows,
                                    strip_rows);
  // What is not packed is converted as it always is; or made, where it is blocks that no kernel takes.
  const auto is_left = [](const Plan& plan, const Matrix& matrix) {
    return !plan.is_packed && plan.to == Format::kBf16 && matrix.blocks.rows;
  };
  if (weights->make && (is_left(qkv, like.q) || is_left(qkv, like.k) || is_left(qkv, like.v) ||
                        is_left(o, like.o) || is_left(unembedding, weights->unembedding)))
    weights->make(pool, {}, MakeWhat::kAll);
  const auto unpacked = [](const Plan& plan) { return plan.is_packed ? Format::kBf16 : plan.to; };

  Weights kept = *weights;
  weights.reset();
  PackedModel model;
  struct Group {
    size_t bytes_before{0}, bytes_after{0};
    Format before{Format::kBf16};
  };
  // One or several matrices, quantised if they are to be, in strips.
  const auto take = [&](const Plan& plan, std::span<const Matrix> parts, Group& group) {
    std::vector<QuantisedMatrix> quantised;
    std::vector<Matrix> matrices(parts.begin(), parts.end());
    bool is_mapped = kept.is_mapped;
    if (plan.to == Format::kMxfp4) {
      for (Matrix& matrix : matrices) {
        const auto rows = static_cast<size_t>(matrix.rows), cols = static_cast<size_t>(matrix.cols);
        group.before = stored_format(matrix);
        group.bytes_before += matrix_bytes(group.before, rows, cols);
        group.bytes_after += matrix_bytes(Format::kMxfp4, rows, cols);
        quantised.push_back(quantise(matrix, Format::kMxfp4, pool));
        matrix = quantised.back().matrix;
      }
      is_mapped = false;
    }
    return pack_below(matrices, strip_rows, is_mapped, pool);
  };
  Group qkv_group, o_group, unembedding_group;
  const auto take_experts = [&](ExpertMatrices& experts) {
    PackedMatrix packed = pack(experts.first, kept.config.num_experts, strip_rows, kept.is_mapped, pool);
    experts.first.data = experts.first.scales = nullptr;
    experts.first.blocks = {};
    return packed;
  };
  for (LayerWeights& layer : kept.layers) {
    PackedLayer packed{take_experts(layer.gate_up), take_experts(layer.down), {}, {}};
    layer.experts_storage.reset();
    const Matrix parts[]{layer.q, layer.k, layer.v};
    if (qkv.is_packed) packed.qkv = take(qkv, parts, qkv_group);
    if (o.is_packed) packed.o = take(o, {&layer.o, 1}, o_group);
    model.layers.push_back(std::move(packed));
  }
  if (unembedding.is_packed) model.unembedding = take(unembedding, {&kept.unembedding, 1}, unembedding_group);
  for (const auto& [name, group] :
       {std::pair{"qkv", &qkv_group}, {"o", &o_group}, {"lm_head", &unembedding_group}})
    if (group->bytes_after > 0)
      log_conversion(name, group->before, Format::kMxfp4, group->bytes_before, group->bytes_after);
  model.weights = quantise_dense(std::make_shared<const Weights>(std::move(kept)),
                                 {unpacked(qkv), unpacked(o), unpacked(unembedding)}, pool);
  return model;
}

}  // namespace nibble::cpu
