#include "model/bind_weights.h"

#include <fmt/format.h>

#include <string>
#include <unordered_map>
#include <utility>

#include "core/errors/check.h"
#include "formats/mxfp4.h"

namespace nibble {
namespace {

class Binder {
 public:
  Binder(const Config& config, const std::function<DescribedTensor(const TensorSpec&)>& describe) {
    for (TensorSpec& spec : tensor_specs(config)) {
      const DescribedTensor tensor = describe(spec);
      std::string name = spec.name;
      tensors_.emplace(std::move(name), Bound{std::move(spec), tensor});
    }
  }

  Vector vector(const std::string& name) const {
    const Bound& bound = at(name);
    const StoredTensor& tensor = std::get<StoredTensor>(bound.tensor);
    return {tensor.data, format_of(tensor, bound.spec), static_cast<int>(bound.spec.shape[0])};
  }
  Matrix matrix(const std::string& name) const {
    const auto& [spec, tensor] = at(name);
    Matrix matrix{static_cast<int>(spec.shape[0]), static_cast<int>(spec.shape[1]), {}};
    if (const auto* stored = std::get_if<StoredTensor>(&tensor))
      matrix.stored =
          stored->row_scales
              ? Elements{.format = Format::kE4m3, .data = stored->data, .row_scales = stored->row_scales}
              : Elements{.format = format_of(*stored, spec), .data = stored->data};
    else if (const auto* blocks = std::get_if<Blocks>(&tensor))
      matrix.stored = *blocks;
    else if (const auto* foreign = std::get_if<std::shared_ptr<const ForeignMatrix>>(&tensor))
      matrix.stored = *foreign;
    else
      matrix.stored = Recipe{.format = Format::kBf16, .data = std::get<RandomWords>(tensor)};
    return matrix;
  }
  ExpertMatrices experts(const std::string& name) const {
    const Bound &codes = at(name + "_blocks"), &scales = at(name + "_scales"), &bias = at(name + "_bias");
    ExpertMatrices experts;
    experts.first.rows = static_cast<int>(codes.spec.shape[1]);
    experts.first.cols = static_cast<int>(codes.spec.shape[2] * kMxfp4BlockSize);
    if (const auto* stored = std::get_if<StoredTensor>(&codes.tensor))
      experts.first.stored =
          Elements{.format = Format::kMxfp4,
                   .data = stored->data,
                   .scales = static_cast<const uint8_t*>(std::get<StoredTensor>(scales.tensor).data)};
    else if (const auto* blocks = std::get_if<Blocks>(&codes.tensor))
      experts.first.stored = *blocks;
    else if (const auto* other = std::get_if<std::shared_ptr<const StoredExperts>>(&codes.tensor))
      experts.first.stored = *other;
    else
      experts.first.stored =
          Recipe{Format::kMxfp4, std::get<RandomWords>(codes.tensor), std::get<RandomWords>(scales.tensor)};
    const StoredTensor& biases = std::get<StoredTensor>(bias.tensor);
    experts.first_bias = {biases.data, format_of(biases, bias.spec), experts.first.rows};
    return experts;
  }

 private:
  struct Bound {
    TensorSpec spec;
    DescribedTensor tensor;
  };
  static Format format_of(const StoredTensor& tensor, const TensorSpec& spec) {
    NIBBLE_CHECK(tensor.dtype == DType::kBf16 || tensor.dtype == DType::kF32, "{} is {}", spec.name,
                 tensor.dtype);
    return tensor.dtype == DType::kF32 ? Format::kF32 : Format::kBf16;
  }
  const Bound& at(const std::string& name) const {
    const auto place = tensors_.find(name);
    NIBBLE_CHECK(place != tensors_.end(), "no spec names {}", name);
    return place->second;
  }

  std::unordered_map<std::string, Bound> tensors_;
};

LayerWeights bind_layer(const Binder& tensors, const std::string& prefix, LayerKind kind) {
  LayerWeights layer;
  layer.kind = kind;
  layer.attention_norm = tensors.vector(prefix + "input_layernorm.weight");
  layer.q = tensors.matrix(prefix + "self_attn.q_proj.weight");
  layer.k = tensors.matrix(prefix + "self_attn.k_proj.weight");
  layer.v = tensors.matrix(prefix + "self_attn.v_proj.weight");
  layer.q_bias = tensors.vector(prefix + "self_attn.q_proj.bias");
  layer.k_bias = tensors.vector(prefix + "self_attn.k_proj.bias");
  layer.v_bias = tensors.vector(prefix + "self_attn.v_proj.bias");
  layer.sinks = tensors.vector(prefix + "self_attn.sinks");
  layer.o = tensors.matrix(prefix + "self_attn.o_proj.weight");
  layer.o_bias = tensors.vector(prefix + "self_attn.o_proj.bias");
  layer.mlp_norm = tensors.vector(prefix + "post_attention_layernorm.weight");
  layer.router = tensors.matrix(prefix + "mlp.router.weight");
  layer.router_bias = tensors.vector(prefix + "mlp.router.bias");
  layer.gate_up = tensors.experts(prefix + "mlp.experts.gate_up_proj");
  layer.down = tensors.experts(prefix + "mlp.experts.down_proj");
  return layer;
}

}  // namespace

Weights bind_weights(const Config& config,
                     const std::function<DescribedTensor(const TensorSpec&)>& describe) {
  const Binder tensors(config, describe);
  Weights weights;
  weights.config = config;
  weights.embedding = tensors.matrix("model.embed_tokens.weight");
  for (int n = 0; n < config.num_layers; ++n)
    weights.layers.push_back(
        bind_layer(tensors, fmt::format("model.layers.{}.", n), config.layer_kinds[static_cast<size_t>(n)]));
  weights.final_norm = tensors.vector("model.norm.weight");
  weights.unembedding = tensors.matrix("lm_head.weight");
  return weights;
}

}  // namespace nibble
