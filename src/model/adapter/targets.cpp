#include "model/adapter/targets.h"

#include <charconv>

#include "core/errors/check.h"
#include "core/text/take_until.h"

namespace nibble {
namespace {

struct DenseName {
  AdaptedMatrix matrix;
  std::string_view module, gguf;  // without the prefix of a layer
};
constexpr DenseName kModelNames[] = {
    {AdaptedMatrix::kEmbedding, "model.embed_tokens", "token_embd.weight"},
    {AdaptedMatrix::kUnembedding, "lm_head", "output.weight"},
};
constexpr DenseName kLayerNames[] = {
    {AdaptedMatrix::kQ, "self_attn.q_proj", "attn_q.weight"},
    {AdaptedMatrix::kK, "self_attn.k_proj", "attn_k.weight"},
    {AdaptedMatrix::kV, "self_attn.v_proj", "attn_v.weight"},
    {AdaptedMatrix::kO, "self_attn.o_proj", "attn_output.weight"},
    {AdaptedMatrix::kRouter, "mlp.router", "ffn_gate_inp.weight"},
    {AdaptedMatrix::kRouter, "mlp.router.linear", "ffn_gate_inp.weight"},
};

// Names of experts' matrices. In a module, N stands for the number of the expert.
struct ExpertName {
  AdaptedMatrix matrix;
  std::string_view name;
  int first_row{0}, row_step{1};
};
constexpr ExpertName kExpertModules[] = {
    {AdaptedMatrix::kGateUp, "mlp.experts.gate_up_projs.N"},
    {AdaptedMatrix::kDown, "mlp.experts.down_projs.N"},
    {AdaptedMatrix::kGateUp, "mlp.experts.N.gate_up_proj"},
    {AdaptedMatrix::kGateUp, "mlp.experts.N.gate_proj", 0, 2},
    {AdaptedMatrix::kGateUp, "mlp.experts.N.up_proj", 1, 2},
    {AdaptedMatrix::kDown, "mlp.experts.N.down_proj"},
};
constexpr ExpertName kExpertTensors[] = {
    {AdaptedMatrix::kGateUp, "ffn_gate_exps.weight", 0, 2},
    {AdaptedMatrix::kGateUp, "ffn_up_exps.weight", 1, 2},
    {AdaptedMatrix::kDown, "ffn_down_exps.weight"},
};

std::optional<int> read_index(std::string_view text, int count) {
  int index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  const bool is_plain = text.size() == 1 || (!text.empty() && text[0] != '0');
  if (error != std::errc{} || end != text.data() + text.size() || !is_plain || index < 0 || index >= count)
    return std::nullopt;
  return index;
}

// Splits "model.layers.3.mlp.router" into 3 and "mlp.router"; nullopt if the name is outside the layers.
struct OfLayer {
  int layer;
  std::string_view field;
};
std::optional<OfLayer> of_layer(std::string_view name, std::string_view prefix, const Config& config) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  const auto layer = read_index(take_until(name, '.'), config.num_layers);
  return layer ? std::optional(OfLayer{*layer, name}) : std::nullopt;
}

// Returns the number that `name` has where `pattern` has N; nullopt if the text around it differs or the
// number is not below `count`.
std::optional<int> number_in(std::string_view name, std::string_view pattern, int count) {
  const size_t at = pattern.find('N');
  const std::string_view before = pattern.substr(0, at), after = pattern.substr(at + 1);
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after))
    return std::nullopt;
  return read_index(name.substr(before.size(), name.size() - before.size() - after.size()), count);
}

}  // namespace

Extents extents_of(AdaptedMatrix matrix, const Config& config) {
  const int hidden = config.hidden, q = config.num_heads * config.head_dim;
  switch (matrix) {
    case AdaptedMatrix::kEmbedding:
    case AdaptedMatrix::kUnembedding:
      return {config.vocab, hidden};
    case AdaptedMatrix::kQ:
      return {q, hidden};
    case AdaptedMatrix::kK:
    case AdaptedMatrix::kV:
      return {config.num_kv_heads * config.head_dim, hidden};
    case AdaptedMatrix::kO:
      return {hidden, q};
    case AdaptedMatrix::kRouter:
      return {config.num_experts, hidden};
    case AdaptedMatrix::kGateUp:
      return {2 * config.intermediate, hidden};
    case AdaptedMatrix::kDown:
      return {hidden, config.intermediate};
  }
  NIBBLE_CHECK(false, "no such matrix");
}

Target target_of(AdaptedMatrix matrix, int layer, const Config& config) {
  const auto [rows, cols] = extents_of(matrix, config);
  return {matrix, layer, static_cast<uint64_t>(rows), static_cast<uint64_t>(cols)};
}

std::optional<Target> target_of_module(std::string_view module, const Config& config) {
  for (const DenseName& row : kModelNames)
    if (row.module == module) return target_of(row.matrix, 0, config);
  const auto part = of_layer(module, "model.layers.", config);
  if (!part) return std::nullopt;
  for (const DenseName& row : kLayerNames)
    if (row.module == part->field) return target_of(row.matrix, part->layer, config);
  for (const ExpertName& row : kExpertModules)
    if (const auto expert = number_in(part->field, row.name, config.num_experts)) {
      Target target = target_of(row.matrix, part->layer, config);
      target.first_row = row.first_row;
      target.row_step = row.row_step;
      target.expert = expert;
      return target;
    }
  return std::nullopt;
}

std::optional<Target> target_of_gguf(std::string_view tensor, const Config& config) {
  for (const DenseName& row : kModelNames)
    if (row.gguf == tensor) return target_of(row.matrix, 0, config);
  const auto part = of_layer(tensor, "blk.", config);
  if (!part) return std::nullopt;
  for (const DenseName& row : kLayerNames)
    if (row.gguf == part->field) return target_of(row.matrix, part->layer, config);
  for (const ExpertName& row : kExpertTensors)
    if (row.name == part->field) {
      Target target = target_of(row.matrix, part->layer, config);
      target.first_row = row.first_row;
      target.row_step = row.row_step;
      return target;
    }
  return std::nullopt;
}

}  // namespace nibble
