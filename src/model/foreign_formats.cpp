#include "model/foreign_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <optional>

namespace nibble {
namespace {

using Element = Fields::Element;

struct ProgramRow {
  std::string_view quant_method, program;
};
constexpr ProgramRow kPrograms[] = {
    {"aqlm", "an AQLM"},
    {"auto-round", "an AutoRound"},
    {"awq", "an AWQ"},
    {"bitnet", "a BitNet"},
    {"bitsandbytes", "a bitsandbytes"},
    {"eetq", "an EETQ"},
    {"exl2", "an ExLlamaV2"},
    {"exl3", "an ExLlamaV3"},
    {"fbgemm_fp8", "an FBGEMM"},
    {"fp_quant", "an FP-Quant"},
    {"gptq", "a GPTQ"},
    {"higgs", "a HIGGS"},
    {"hqq", "an HQQ"},
    {"intel/auto-round", "an AutoRound"},
    {"quanto", "a Quanto"},
    {"quark", "an AMD Quark"},
    {"spqr", "an SpQR"},
    {"torchao", "a torchao"},
    {"vptq", "a VPTQ"},
};

struct TensorMark {
  std::string_view part;  // part of the tensor's name
  std::string_view writer;
};
constexpr TensorMark kTensorMarks[] = {
    {".qweight", "a GPTQ or AWQ checkpoint"},
    {".qzeros", "a GPTQ or AWQ checkpoint"},
    {".quant_state.bitsandbytes__", "a bitsandbytes checkpoint"},
    {".absmax", "a bitsandbytes checkpoint"},
    {".weight_packed", "a compressed-tensors checkpoint with weights packed into integers"},
    {".pre_quant_scale", "a ModelOpt checkpoint with scaled inputs"},
    {".weight_global_scale", "a compressed-tensors checkpoint in NVFP4"},
    {".weight_scale_2", "a ModelOpt checkpoint in NVFP4"},
    {".mlp.experts.gate_proj.", "an MLX checkpoint"},
    {".lora_A.", "a LoRA adapter, which belongs to another model,"},
    {".lora_embedding_A", "a LoRA adapter, which belongs to another model,"},
};

std::optional<int64_t> first_number(const Fields& fields, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const std::optional<Element> value = fields.find(name);
    int64_t number{0};
    if (value && !value->get(number)) return number;
  }
  return std::nullopt;
}

// Returns " with 4-bit groups of 128", or the part of it that the file states.
std::string size_of_groups(const Fields& quantization) {
  const auto bits = first_number(quantization, {"bits", "w_bit", "weight_bits"});
  const auto group = first_number(quantization, {"group_size", "q_group_size"});
  if (bits && group && *group > 0) return fmt::format(" with {}-bit groups of {}", *bits, *group);
  if (bits) return fmt::format(" with {}-bit weights", *bits);
  if (quantization.find("load_in_4bit") && quantization.boolean_or("load_in_4bit", false))
    return " with 4-bit weights";
  if (quantization.find("load_in_8bit") && quantization.boolean_or("load_in_8bit", false))
    return " with 8-bit weights";
  return {};
}

[[noreturn]] void refuse_checkpoint(const Fields& quantization, std::string_view program,
                                    std::string_view how = {}) {
  quantization.refuse_whole(fmt::format("this is {} checkpoint{}{}: {}", program,
                                        size_of_groups(quantization), how, kInsteadOfForeign));
}

std::string_view mode_of(const Fields& quantization) {
  std::string_view mode;
  const std::optional<Element> field = quantization.find("mode");
  return field && !field->get(mode) ? mode : std::string_view{};
}

// Whether nibble reads this quantisation of MLX: 4 or 8 bits with an offset, or MXFP4.
bool is_readable(const Fields& quantization) {
  const auto bits = first_number(quantization, {"bits"});
  const std::optional<Element> field = quantization.find("mode");
  const std::string_view mode = mode_of(quantization);
  if (field && mode != "affine" && mode != "mxfp4") return false;
  return bits && (*bits == 4 || (*bits == 8 && mode != "mxfp4"));
}

// MLX writes the same object under two names, `quantization` and `quantization_config`. The object has no
// quant_method; that of newer versions has a mode.
void refuse_mlx(const Fields& quantization) {
  const std::string_view mode = mode_of(quantization);
  const bool is_known = mode == "affine" || mode == "mxfp4" || mode == "mxfp8" || mode == "nvfp4";
  refuse_checkpoint(quantization, "an MLX", is_known ? fmt::format(" ({})", mode) : std::string());
}

// Checks the object that describes all layers. It may have objects under the names of layers, which describe
// these layers instead.
void check_mlx(const Fields& config, std::string_view name) {
  const Fields quantization = config.object(name);
  if (!is_readable(quantization)) refuse_mlx(quantization);
  simdjson::dom::object fields;
  if (config.find(name)->get(fields)) return;
  for (const auto [layer, value] : fields) {
    simdjson::dom::object of_layer;
    if (value.get(of_layer)) continue;
    const Fields own = quantization.object(layer);
    if (!is_readable(own)) refuse_mlx(own);
  }
}

}  // namespace

void refuse_foreign_quantization(const Fields& config) {
  if (config.find("quantization")) check_mlx(config, "quantization");
  if (!config.find("quantization_config")) return;
  const Fields quantization = config.object("quantization_config");
  const std::optional<Element> field = quantization.find("quant_method");
  if (!field) {
    if (first_number(quantization, {"bits"}) && quantization.find("group_size"))
      check_mlx(config, "quantization_config");
    return;
  }
  std::string_view method;
  if (field->get(method)) return;
  const auto* row = std::ranges::find(kPrograms, method, &ProgramRow::quant_method);
  const bool has_words = method == "awq" || method == "gptq";
  if (has_words && first_number(quantization, {"bits", "w_bit"}) == 4) return;  // check_quantization()
  if (row != std::end(kPrograms)) refuse_checkpoint(quantization, row->program);
}

std::string_view foreign_writer(std::string_view tensor) {
  for (const TensorMark& row : kTensorMarks)
    if (tensor.find(row.part) != std::string_view::npos) return row.writer;
  return {};
}

}  // namespace nibble
