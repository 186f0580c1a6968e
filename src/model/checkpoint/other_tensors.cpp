#include "model/checkpoint/other_tensors.h"

#include "core/errors/error.h"

namespace nibble {
namespace {

// Name endings of tensors that quantisers write and nibble can't use.
struct UnusableTensor {
  std::string_view ending, meaning;
};
constexpr UnusableTensor kUnusable[] = {
    {".weight_scale", "scales of a matrix that is not F8_E4M3"},
    {".input_scale", "the scale of the input of a matrix that is not F8_E4M3"},
    {".weight_scale_inv", "scales of blocks of a matrix; nibble reads one scale per tensor or per row"},
    {".weight_zero_point", "zero points of asymmetric quantisation, which nibble does not read"},
    {".output_scale", "the scale of a quantised output, which nibble does not read"},
    {".q_scale", "the scale of quantised queries, which nibble does not read"},
    {".k_scale", "a scale of an FP8 KV cache; that of nibble (--kv-dtype fp8) has none"},
    {".v_scale", "a scale of an FP8 KV cache; that of nibble (--kv-dtype fp8) has none"},
    {".weight_packed", "weights packed into integers for which the layer's scales are missing"},
    {".weight_scale_2", "a scale of NVFP4 weights, of which the layer has none"},
    {".weight_global_scale", "a scale of NVFP4 weights, of which the layer has none"},
    {".pre_quant_scale", "scales of the inputs of a layer, which nibble does not read"},
};

}  // namespace

std::string_view unusable_meaning(std::string_view name) {
  for (const UnusableTensor& row : kUnusable)
    if (name.ends_with(row.ending)) return row.meaning;
  return {};
}

bool is_derived(std::string_view name) { return name.ends_with("rotary_emb.inv_freq"); }

void refuse_wrapped(const Container& container, std::string_view expected) {
  constexpr std::string_view kEmbedding{"embed_tokens.weight"};
  for (const Tensor& tensor : container.tensors)
    if (tensor.name.ends_with(kEmbedding))
      throw InputError(
          "{}: the embedding is named '{}' instead of '{}': the checkpoint was saved from a model inside "
          "another (torch.compile, DistributedDataParallel, PEFT) or from a part of the model. Save the "
          "GptOssForCausalLM itself with save_pretrained",
          container.files[tensor.file_index].string(), tensor.name, expected);
}

}  // namespace nibble
