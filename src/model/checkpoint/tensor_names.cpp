#include "model/checkpoint/tensor_names.h"

#include <algorithm>
#include <iterator>

#include "core/errors/check.h"
#include "core/text/take_until.h"

namespace nibble {
namespace {

constexpr TensorName kNames[] = {
    {"model.embed_tokens.weight", "embedding.weight", "token_embd.weight"},
    {"model.norm.weight", "norm.scale", "output_norm.weight"},
    {"lm_head.weight", "unembedding.weight", "output.weight"},
    {"input_layernorm.weight", "attn.norm.scale", "attn_norm.weight"},
    {"self_attn.q_proj.weight", "attn.qkv.weight", "attn_q.weight"},
    {"self_attn.q_proj.bias", "attn.qkv.bias", "attn_q.bias"},
    {"self_attn.k_proj.weight", "attn.qkv.weight", "attn_k.weight"},
    {"self_attn.k_proj.bias", "attn.qkv.bias", "attn_k.bias"},
    {"self_attn.v_proj.weight", "attn.qkv.weight", "attn_v.weight"},
    {"self_attn.v_proj.bias", "attn.qkv.bias", "attn_v.bias"},
    {"self_attn.sinks", "attn.sinks", "attn_sinks.weight"},
    {"self_attn.o_proj.weight", "attn.out.weight", "attn_output.weight"},
    {"self_attn.o_proj.bias", "attn.out.bias", "attn_output.bias"},
    {"post_attention_layernorm.weight", "mlp.norm.scale", "post_attention_norm.weight"},
    {"mlp.router.weight", "mlp.gate.weight", "ffn_gate_inp.weight"},
    {"mlp.router.bias", "mlp.gate.bias", "ffn_gate_inp.bias"},
    {"mlp.experts.gate_up_proj_blocks", "mlp.mlp1_weight.blocks", "ffn_gate_exps.weight"},
    {"mlp.experts.gate_up_proj_scales", "mlp.mlp1_weight.scales", "ffn_gate_exps.weight"},
    {"mlp.experts.gate_up_proj_bias", "mlp.mlp1_bias", "ffn_gate_exps.bias"},
    {"mlp.experts.down_proj_blocks", "mlp.mlp2_weight.blocks", "ffn_down_exps.weight"},
    {"mlp.experts.down_proj_scales", "mlp.mlp2_weight.scales", "ffn_down_exps.weight"},
    {"mlp.experts.down_proj_bias", "mlp.mlp2_bias", "ffn_down_exps.bias"},
};

}  // namespace

TensorName tensor_name(std::string_view huggingface) {
  constexpr std::string_view kLayers{"model.layers."};
  std::string_view layer, field = huggingface;
  if (field.starts_with(kLayers)) {
    field.remove_prefix(kLayers.size());
    layer = take_until(field, '.');
  }
  const auto* row = std::ranges::find(kNames, field, &TensorName::huggingface);
  NIBBLE_CHECK(row != std::end(kNames), "{} is no tensor of gpt-oss", huggingface);
  return {row->huggingface, row->openai, row->gguf, layer};
}

}  // namespace nibble
