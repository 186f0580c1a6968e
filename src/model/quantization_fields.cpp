#include "model/quantization_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string_view>

#include "core/files/mapped_file.h"
#include "formats/untrusted_json.h"

namespace nibble {
namespace {

constexpr std::string_view kUtf8Mark{"\xEF\xBB\xBF"};
constexpr size_t kJsonDepth{32};  // nesting of the JSON, as in read_config()

using Element = Fields::Element;

void require_one_of(const Fields& fields, std::string_view name,
                    std::initializer_list<std::string_view> accepted) {
  const std::optional<Element> value = fields.find(name);
  std::string_view text;
  if (value && !value->get(text) && std::ranges::find(accepted, text) != accepted.end()) return;
  std::string list;
  for (const std::string_view one : accepted) list += fmt::format("{}{:?}", list.empty() ? "" : " or ", one);
  fields.refuse(name, list);
}

// Refuses a part of a description that changes what the weights mean, or that adds scales which nibble does
// not apply.
void must_be_absent(const Fields& fields, std::string_view name) {
  const std::optional<Element> value = fields.find(name);
  simdjson::dom::object object;
  if (value && (value->get(object) || object.size() > 0)) fields.refuse(name, "null");
}

bool is_number(const Fields& fields, std::string_view name, double value) {
  const std::optional<Element> field = fields.find(name);
  double number = 0;
  return field && !field->get(number) && number == value;
}

// Weights of 4 bits: NVFP4, or integers in groups of adjacent columns.
void check_4_bit_weights(const Fields& weights) {
  require_one_of(weights, "type", {"float", "int"});
  weights.must_be_flag("dynamic", false);
  for (const std::string_view name : {"block_structure", "actorder"}) must_be_absent(weights, name);
  std::string_view type;
  if (weights.find("type")->get(type) || type == "int") {
    if (weights.find("strategy")) require_one_of(weights, "strategy", {"group", "channel"});
    return;
  }
  if (weights.find("strategy")) require_one_of(weights, "strategy", {"tensor_group", "group"});
  if (!weights.find("group_size")) weights.refuse("group_size", "16");
  weights.must_be_number("group_size", 16);
  weights.must_be_flag("symmetric", true);
}

// Checks that weights are E4M3 with a scale per tensor or per row, without a zero point, or have 4 bits.
void check_weights(const Fields& weights) {
  weights.only({"num_bits", "type", "strategy", "symmetric", "dynamic", "group_size", "block_structure",
                "actorder", "observer", "observer_kwargs", "scale_dtype", "zp_dtype"});
  if (is_number(weights, "num_bits", 4)) return check_4_bit_weights(weights);
  if (!weights.find("num_bits")) weights.refuse("num_bits", "8");
  weights.must_be_number("num_bits", 8);
  if (!weights.find("type")) weights.refuse("type", "\"float\"");
  weights.must_be("type", "float");
  if (weights.find("strategy")) require_one_of(weights, "strategy", {"tensor", "channel"});
  weights.must_be_flag("symmetric", true);
  weights.must_be_flag("dynamic", false);
  for (const std::string_view name : {"group_size", "block_structure", "actorder"})
    must_be_absent(weights, name);
}

void check_groups(const Fields& quantization) {
  const Fields groups = quantization.object("config_groups");
  simdjson::dom::object names;
  if (quantization.find("config_groups")->get(names)) return;  // object() reports the error
  for (const auto [name, value] : names) {
    const Fields group = groups.object(name);
    group.only({"targets", "weights", "input_activations", "output_activations", "format"});
    if (group.find("format"))
      require_one_of(group, "format",
                     {"float-quantized", "naive-quantized", "nvfp4-pack-quantized", "pack-quantized"});
    check_weights(group.object("weights"));
  }
}

void check_compressed_tensors(const Fields& quantization) {
  quantization.only({"quant_method", "config_groups", "format", "ignore", "kv_cache_scheme",
                     "quantization_status", "global_compression_ratio", "sparsity_config", "transform_config",
                     "version"});
  require_one_of(
      quantization, "format",
      {"float-quantized", "naive-quantized", "nvfp4-pack-quantized", "pack-quantized", "mixed-precision"});
  quantization.must_be("quantization_status", "compressed");
  for (const std::string_view name : {"kv_cache_scheme", "transform_config"})
    must_be_absent(quantization, name);
  if (const std::optional<Element> sparsity = quantization.find("sparsity_config")) {
    simdjson::dom::object object;
    if (sparsity->get(object) || object.size() > 0)
      require_one_of(quantization.object("sparsity_config"), "format", {"dense"});
  }
  check_groups(quantization);
}

void check_fp8(const Fields& quantization) {
  quantization.only({"quant_method", "activation_scheme", "ignored_layers", "modules_to_not_convert", "fmt",
                     "weight_block_size", "kv_cache_scheme"});
  quantization.must_be("fmt", "e4m3");
  for (const std::string_view name : {"weight_block_size", "kv_cache_scheme"})
    must_be_absent(quantization, name);
}

void check_modelopt(const Fields& quantization) {
  require_one_of(quantization, "quant_algo", {"FP8", "NVFP4", "W4A16_NVFP4"});
  quantization.only({"quant_method", "quant_algo", "config_groups", "ignore", "exclude_modules", "producer",
                     "kv_cache_scheme", "kv_cache_quant_algo", "group_size"});
  for (const std::string_view name : {"kv_cache_scheme", "kv_cache_quant_algo"})
    must_be_absent(quantization, name);
  if (quantization.find("config_groups")) check_groups(quantization);
}

// Checks the fields of AWQ and GPTQ that say what the bytes mean. Their other fields describe how the
// quantiser chose the weights.
void check_words(const Fields& quantization) {
  quantization.must_be_number("bits", 4);
  quantization.must_be_number("w_bit", 4);
  quantization.must_be("pack_dtype", "int32");
  for (const std::string_view name : {"rotation", "adapter"}) must_be_absent(quantization, name);
}

void check_awq(const Fields& quantization) {
  check_words(quantization);
  quantization.must_be_flag("zero_point", true);
  for (const std::string_view name : {"version", "format", "checkpoint_format"})
    if (quantization.find(name)) require_one_of(quantization, name, {"gemm", "GEMM"});
}

void check_gptq(const Fields& quantization) {
  check_words(quantization);
  quantization.must_be_flag("is_marlin_format", false);
  for (const std::string_view name : {"format", "checkpoint_format"})
    if (quantization.find(name)) require_one_of(quantization, name, {"gptq", "gptq_v2"});
}

struct Method {
  std::string_view name;
  void (*check)(const Fields& quantization);
};
constexpr Method kMethods[] = {
    {"mxfp4", [](const Fields&) {}},
    {"compressed-tensors", &check_compressed_tensors},
    {"fp8", &check_fp8},
    {"modelopt", &check_modelopt},
    {"awq", &check_awq},
    {"gptq", &check_gptq},
};

}  // namespace

void check_quantization(const Fields& config) {
  if (!config.find("quantization_config")) return;
  const Fields quantization = config.object("quantization_config");
  const std::optional<Element> field = quantization.find("quant_method");
  if (!field) return;
  std::string_view name;
  const auto* method =
      field->get(name) ? std::end(kMethods) : std::ranges::find(kMethods, name, &Method::name);
  if (method == std::end(kMethods))
    quantization.refuse("quant_method",
                        R"("mxfp4", "compressed-tensors", "fp8", "modelopt", "awq" or "gptq")");
  method->check(quantization);
}

std::optional<uint32_t> read_gptq_zero_offset(const std::filesystem::path& file) {
  std::string text = read_text_file(file);
  std::string_view json = text;
  if (json.starts_with(kUtf8Mark)) json.remove_prefix(kUtf8Mark.size());
  simdjson::dom::parser parser;
  const Fields config(parse_untrusted_json(parser, json, kJsonDepth, file.string()), file.string());
  if (!config.find("quantization_config")) return std::nullopt;
  const Fields quantization = config.object("quantization_config");
  const auto is = [&](std::string_view name, std::string_view value) {
    const std::optional<Element> field = quantization.find(name);
    std::string_view found;
    return field && !field->get(found) && found == value;
  };
  if (!is("quant_method", "gptq")) return std::nullopt;
  return is("checkpoint_format", "gptq_v2") || is("format", "gptq_v2") ? 0 : 1;
}

}  // namespace nibble
