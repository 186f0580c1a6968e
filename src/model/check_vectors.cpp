#include "model/check_vectors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <string_view>

#include "core/errors/error.h"

namespace nibble {
namespace {

class VectorCheck {
 public:
  explicit VectorCheck(const Weights& weights) : weights_(weights) {}

  void run() {
    for (const LayerWeights& layer : weights_.layers) check_layer(layer);
    prefix_ = "model.";
    check("norm.weight", weights_.final_norm, kLargestNormOrBias);
    prefix_ = "";
    check_codes("lm_head.weight", weights_.unembedding);
  }

 private:
  void check_layer(const LayerWeights& layer) {
    prefix_ = fmt::format("model.layers.{}.", &layer - weights_.layers.data());
    check("self_attn.sinks", layer.sinks, kLargestSink);
    check("input_layernorm.weight", layer.attention_norm, kLargestNormOrBias);
    check("self_attn.q_proj.bias", layer.q_bias, kLargestNormOrBias);
    check("self_attn.k_proj.bias", layer.k_bias, kLargestNormOrBias);
    check("self_attn.v_proj.bias", layer.v_bias, kLargestNormOrBias);
    check("self_attn.o_proj.bias", layer.o_bias, kLargestNormOrBias);
    check("post_attention_layernorm.weight", layer.mlp_norm, kLargestNormOrBias);
    check("mlp.router.bias", layer.router_bias, kLargestNormOrBias);
    check("mlp.experts.gate_up_proj_bias", biases(layer.gate_up), kLargestNormOrBias);
    check("mlp.experts.down_proj_bias", biases(layer.down), kLargestNormOrBias);
    check_codes("self_attn.q_proj.weight", layer.q);
    check_codes("self_attn.k_proj.weight", layer.k);
    check_codes("self_attn.v_proj.weight", layer.v);
    check_codes("self_attn.o_proj.weight", layer.o);
  }

  // Returns the biases of all experts as one vector: the biases are consecutive in memory.
  Vector biases(const ExpertMatrices& experts) const {
    Vector all = experts.first_bias;
    all.count *= weights_.config.experts().count;
    return all;
  }

  void check(std::string_view tensor, const Vector& vector, float largest) const {
    for (int i = 0; i < vector.count; ++i)
      if (!(std::abs(vector[i]) <= largest))  // refuses NaN too
        throw InputError(
            "{}: value {} of tensor '{}{}' is {}; expected a number from {} to {}. The file is damaged or "
            "was "
            "converted incorrectly: download it again, or convert it again",
            weights_.source, i, prefix_, tensor, vector[i], -largest, largest);
  }

  // Refuses E4M3's two codes of NaN: not all kernels turn them into NaN.
  void check_codes(std::string_view tensor, const Matrix& matrix) const {
    const auto* stored = std::get_if<Elements>(&matrix.stored);
    if (!stored || stored->format != Format::kE4m3) return;
    const std::span codes(static_cast<const uint8_t*>(stored->data),
                          static_cast<size_t>(matrix.rows) * static_cast<size_t>(matrix.cols));
    const auto nan = std::ranges::find_if(codes, [](uint8_t code) { return (code & 0x7F) == 0x7F; });
    if (nan != codes.end())
      throw InputError(
          "{}: value {} of tensor '{}{}' is nan. The file is damaged or was converted incorrectly: download "
          "it again, or convert it again",
          weights_.source, nan - codes.begin(), prefix_, tensor);
  }

  const Weights& weights_;
  std::string prefix_;
};

}  // namespace

void check_vectors(const Weights& weights) { VectorCheck(weights).run(); }

}  // namespace nibble
