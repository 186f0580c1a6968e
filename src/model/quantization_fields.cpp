#include "model/quantization_fields.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string_view>

namespace nibble {
namespace {

using Element = Fields::Element;

void require_one_of(const Fields& fields, std::string_view name,
                    std::initializer_list<std::string_view> accepted) {
  const std::optional<Element> value = fields.find(name);
  std::string_view text;
  if (value && !value->get(text) && std::find(accepted.begin(), accepted.end(), text) != accepted.end())
    return;
  std::string list;
  for (const std::string_view one : accepted) list += fmt::format("{}{:?}", list.empty() ? "" : " or ", one);
  fields.refuse(name, list);
}

// Refuses parts of a description that change what the weights mean, or that add scales which nibble lacks.
void must_be_absent(const Fields& fields, std::string_view name) {
  const std::optional<Element> value = fields.find(name);
  simdjson::dom::object object;
  if (value && (value->get(object) || object.size() > 0)) fields.refuse(name, "null");
}

// Checks that weights are E4M3 with a scale per tensor or per row, without a zero point.
void check_weights(const Fields& weights) {
  weights.only({"num_bits", "type", "strategy", "symmetric", "dynamic", "group_size", "block_structure",
                "actorder", "observer", "observer_kwargs", "scale_dtype", "zp_dtype"});
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
    if (group.find("format")) require_one_of(group, "format", {"float-quantized", "naive-quantized"});
    check_weights(group.object("weights"));
  }
}

void check_compressed_tensors(const Fields& quantization) {
  quantization.only({"quant_method", "config_groups", "format", "ignore", "kv_cache_scheme",
                     "quantization_status", "global_compression_ratio", "sparsity_config", "transform_config",
                     "version"});
  require_one_of(quantization, "format", {"float-quantized", "naive-quantized"});
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
  require_one_of(quantization, "quant_algo", {"FP8"});
  quantization.only({"quant_method", "quant_algo", "config_groups", "ignore", "exclude_modules", "producer",
                     "kv_cache_scheme", "kv_cache_quant_algo"});
  for (const std::string_view name : {"kv_cache_scheme", "kv_cache_quant_algo"})
    must_be_absent(quantization, name);
  if (quantization.find("config_groups")) check_groups(quantization);
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
    quantization.refuse("quant_method", R"("mxfp4", "compressed-tensors", "fp8" or "modelopt")");
  method->check(quantization);
}

}  // namespace nibble
