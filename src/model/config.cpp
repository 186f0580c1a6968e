// Reads and writes the configuration. A field that changes what the model computes must not be ignored: if
// nibble implements only one value of a field, it refuses any other.
#include "model/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <numbers>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/files/mapped_file.h"
#include "core/text/json.h"
#include "formats/mxfp4.h"
#include "formats/untrusted_json.h"
#include "model/config_fields.h"
#include "model/foreign_formats.h"
#include "model/json_fields.h"
#include "model/quantization_fields.h"

namespace nibble {
namespace {

using Element = Fields::Element;

// Limits far above any existing model, yet low enough that no product computed as int overflows.
constexpr int kMaxLayers{1024};
constexpr int kMaxWidth{1 << 16};  // limit of the hidden size and of the width of an expert
constexpr int kMaxHeads{1024};
constexpr int kMaxHeadDim{1024};
constexpr int kMaxExperts{4096};
constexpr int kMaxVocab{1 << 24};
constexpr int kMaxContext{1 << 24};
constexpr int kBlock{kMxfp4BlockSize};  // a row of an expert's matrix must consist of whole blocks
constexpr size_t kMaxFileBytes{1 << 20};
constexpr size_t kMaxDepth{32};  // nesting of the JSON; real files have 3 levels

// Numbers that a config.json may omit, and their defaults, which are the same in every implementation.
struct AbsentField {
  std::string_view name;
  double value;
};
constexpr AbsentField kAbsentFields[] = {
    {"swiglu_limit", 7},  // transformers has no such setting: its code has the constant
    {"beta_fast", 32},    // a limit of YaRN's blend; 32 is the paper's value
    {"beta_slow", 1},
};

double number_or_known(const Fields& fields, std::string_view name, double least, double most) {
  const auto* row = std::ranges::find(kAbsentFields, name, &AbsentField::name);
  NIBBLE_CHECK(row != std::end(kAbsentFields), "no value for an absent {}", name);
  return fields.number_or(name, row->value, least, most);
}

constexpr std::string_view kSlidingName{"sliding_attention"}, kFullName{"full_attention"};

int width(const Fields& fields, std::string_view name) {
  const int value = fields.integer({name}, kBlock, kMaxWidth);
  if (value % kBlock != 0) fields.refuse(name, fmt::format("a multiple of {}, the block of MXFP4", kBlock));
  return value;
}

Config read_sizes(const Fields& fields) {
  Config config;
  config.num_layers = fields.integer({"num_hidden_layers"}, 1, kMaxLayers);
  config.hidden = width(fields, "hidden_size");
  config.intermediate = width(fields, "intermediate_size");
  config.num_heads = fields.integer({"num_attention_heads"}, 1, kMaxHeads);
  config.num_kv_heads = fields.integer({"num_key_value_heads"}, 1, kMaxHeads);
  if (config.num_heads % config.num_kv_heads != 0)
    fields.refuse("num_key_value_heads", fmt::format("a divisor of the {} query heads", config.num_heads));
  config.head_dim = fields.integer({"head_dim"}, 2, kMaxHeadDim);
  if (config.head_dim % 2 != 0) fields.refuse("head_dim", "an even number, because RoPE rotates pairs");
  config.num_experts = fields.integer({"num_local_experts", "num_experts"}, 1, kMaxExperts);
  config.experts_per_token =
      fields.integer({"num_experts_per_tok", "experts_per_token"}, 1, config.num_experts);
  config.vocab = fields.integer({"vocab_size"}, 1, kMaxVocab);
  config.swiglu_limit = static_cast<float>(number_or_known(fields, "swiglu_limit", 1e-3, 1e6));
  return config;
}

std::vector<LayerKind> alternating(int num_layers) {  // released models: layers 0, 2, 4, ... are sliding
  std::vector<LayerKind> kinds;
  for (int i = 0; i < num_layers; ++i) kinds.push_back(i % 2 == 0 ? LayerKind::kSliding : LayerKind::kFull);
  return kinds;
}

std::vector<LayerKind> read_layer_kinds(const Fields& fields, int num_layers) {
  const std::optional<Element> field = fields.find("layer_types");
  if (!field) return alternating(num_layers);
  const std::string accepted =
      fmt::format("a list of {} entries, each \"{}\" or \"{}\"", num_layers, kSlidingName, kFullName);
  simdjson::dom::array types;
  if (field->get(types) || types.size() != static_cast<size_t>(num_layers))
    fields.refuse("layer_types", accepted);
  std::vector<LayerKind> kinds;
  for (const Element type : types) {
    std::string_view name;
    if (type.get(name) || (name != kSlidingName && name != kFullName)) fields.refuse("layer_types", accepted);
    kinds.push_back(name == kSlidingName ? LayerKind::kSliding : LayerKind::kFull);
  }
  return kinds;
}

void read_window(const Fields& fields, Config& config) {
  const auto& kinds = config.layer_kinds;
  if (fields.find("sliding_window") || std::ranges::find(kinds, LayerKind::kSliding) != kinds.end())
    config.window = fields.integer({"sliding_window"}, 1, kMaxContext);
}

double read_theta(const Fields& fields) { return fields.number("rope_theta", 1.001, 1e12); }
double read_factor(const Fields& fields, std::string_view name) { return fields.number(name, 1, 1e6); }

// YaRN scales cos and sin by 0.1 ln(factor) + 1. A file may state this value; any other is refused.
void check_attention_factor(const Fields& fields, double factor) {
  const double concentration = 0.1 * std::log(factor) + 1;
  if (fields.find("attention_factor") &&
      std::abs(fields.number("attention_factor", 0, 1e6) - concentration) > 1e-4)
    fields.refuse("attention_factor", fmt::format("{:.6g}, which follows from the factor", concentration));
}

RopeConfig read_rope_fields(const Fields& config, const Fields& fields) {
  fields.only({"rope_type", "type", "rope_theta", "factor", "beta_fast", "beta_slow", "truncate",
               "original_max_position_embeddings", "attention_factor", "partial_rotary_factor"});
  fields.must_be_number("partial_rotary_factor", 1.0);
  RopeConfig rope;
  rope.theta = read_theta(fields.find("rope_theta") ? fields : config);
  config.must_be_number("rope_theta", rope.theta);
  const std::string_view type_name = fields.find("rope_type") ? "rope_type" : "type";
  const std::optional<Element> field = fields.find(type_name);
  std::string_view type;
  if (!field || field->get(type) || (type != "yarn" && type != "default"))
    fields.refuse(type_name, "\"yarn\" or \"default\"");
  fields.must_be("type", type);
  if (type == "default") {
    fields.must_be_number("factor", 1);
    rope.factor = 1;
    return rope;
  }
  rope.factor = read_factor(fields, "factor");
  rope.beta_fast = number_or_known(fields, "beta_fast", 1e-3, 1e6);
  rope.beta_slow = number_or_known(fields, "beta_slow", 1e-3, 1e6);
  rope.original_context = fields.integer({"original_max_position_embeddings"}, 1, kMaxContext);
  // This field is required: transformers takes an absent field as true, but gpt-oss was trained with false.
  if (!fields.find("truncate")) fields.refuse("truncate", "false, as in gpt-oss, or true");
  rope.truncate = fields.boolean_or("truncate", false);
  check_attention_factor(fields, rope.factor);
  return rope;
}

// Reads `rope_scaling` or `rope_parameters`. transformers 5 may write an object for each kind of layer;
// gpt-oss has the same RoPE in both kinds.
RopeConfig read_rope_object(const Fields& config, std::string_view name) {
  const Fields fields = config.object(name);
  if (!fields.find(kSlidingName) && !fields.find(kFullName)) return read_rope_fields(config, fields);
  fields.only({kSlidingName, kFullName});
  const RopeConfig rope = read_rope_fields(config, fields.object(kSlidingName));
  if (read_rope_fields(config, fields.object(kFullName)) != rope)
    fields.refuse(kFullName, fmt::format("the same as '{}'", kSlidingName));
  return rope;
}

// transformers writes `rope_theta` next to `rope_scaling` (old) or into `rope_parameters` (new).
RopeConfig read_rope(const Fields& fields) {
  const bool has_old = fields.find("rope_scaling").has_value();
  const bool has_new = fields.find("rope_parameters").has_value();
  if (!has_old && !has_new)
    fields.refuse("rope_parameters", "an object (or the older fields 'rope_scaling' and 'rope_theta')");
  const RopeConfig rope = read_rope_object(fields, has_new ? "rope_parameters" : "rope_scaling");
  if (has_old && has_new && read_rope_object(fields, "rope_scaling") != rope)
    fields.refuse("rope_scaling", "the same as 'rope_parameters'");
  return rope;
}

std::vector<TokenId> read_eos(const Fields& fields, int vocab) {
  std::vector<TokenId> ids;
  const auto add = [&](Element element) {
    int64_t id{0};
    if (element.get(id) || id < 0 || id >= vocab)
      fields.refuse("eos_token_id", fmt::format("token ids below {}", vocab));
    ids.push_back(static_cast<TokenId>(id));
  };
  const std::optional<Element> field = fields.find("eos_token_id");
  simdjson::dom::array list;
  if (field && !field->get(list)) {
    for (const Element element : list) add(element);
  } else if (field) {
    add(*field);
  }
  return ids;
}

void check_architectures(const Fields& fields) {
  const std::optional<Element> field = fields.find("architectures");
  if (field && std::string(simdjson::minify(*field)) != R"(["GptOssForCausalLM"])")
    fields.refuse("architectures", R"(["GptOssForCausalLM"])");
}

Config read_huggingface(const Fields& fields) {
  if (!fields.find("model_type")) fields.refuse("model_type", "\"gpt_oss\"");
  fields.must_be("model_type", "gpt_oss");
  check_architectures(fields);
  fields.must_be("hidden_act", "silu");  // Hugging Face's files give gpt-oss's clamped SwiGLU this name
  fields.must_be_flag("attention_bias", true);
  fields.must_be_flag("tie_word_embeddings", false);
  fields.must_be_number("num_nextn_predict_layers", 0);
  refuse_foreign_quantization(fields);
  check_quantization(fields);

  fields.only_of(kReadFields, kNeutralFields);

  Config config = read_sizes(fields);
  config.layer_kinds = read_layer_kinds(fields, config.num_layers);
  read_window(fields, config);
  config.rms_eps = static_cast<float>(fields.number("rms_norm_eps", 1e-30, 1));
  config.rope = read_rope(fields);
  config.max_context = fields.integer_or("max_position_embeddings", config.max_context, 1, kMaxContext);
  config.eos = read_eos(fields, config.vocab);
  return config;
}

// Reads OpenAI's file, which lacks epsilon (1e-5), truncation (off) and the maximum context (original context
// times factor).
Config read_openai(const Fields& fields) {
  fields.only_of(
      "num_hidden_layers num_experts experts_per_token vocab_size hidden_size intermediate_size swiglu_limit "
      "head_dim num_attention_heads num_key_value_heads sliding_window initial_context_length rope_theta "
      "rope_scaling_factor rope_ntk_alpha rope_ntk_beta layer_types");
  Config config = read_sizes(fields);
  config.layer_kinds = read_layer_kinds(fields, config.num_layers);
  read_window(fields, config);
  config.rope.theta = read_theta(fields);
  config.rope.factor = read_factor(fields, "rope_scaling_factor");
  config.rope.beta_slow = fields.number("rope_ntk_alpha", 1e-3, 1e6);
  config.rope.beta_fast = fields.number("rope_ntk_beta", 1e-3, 1e6);
  config.rope.original_context = fields.integer({"initial_context_length"}, 1, kMaxContext);
  const double max_context = config.rope.original_context * config.rope.factor;
  if (max_context > kMaxContext)
    fields.refuse("rope_scaling_factor",
                  fmt::format("a factor that gives at most {} positions", kMaxContext));
  config.max_context = static_cast<int>(max_context);
  return config;
}

// Checks that both ends of the range in which YaRN blends are ascending and within a head's pairs of
// elements. For other values the published implementations disagree (OpenAI's fails, transformers clamps), so
// no result would be right.
void check_yarn(const Config& config, const std::string& origin) {
  const RopeConfig& rope = config.rope;
  if (rope.factor == 1) return;
  const auto corner = [&](double rotations) {
    return config.head_dim / 2.0 * std::log(rope.original_context / (rotations * 2 * std::numbers::pi)) /
           std::log(rope.theta);
  };
  const double low = corner(rope.beta_fast), high = corner(rope.beta_slow);
  if (!(low >= 0 && low < high && high <= config.head_dim / 2.0 - 1))
    throw InputError(
        "{}: YaRN would blend from pair {:.4g} to pair {:.4g} of a head's {}; 'rope_theta', 'beta_fast', "
        "'beta_slow' and the original context must put both in ascending order and in range",
        origin, low, high, config.head_dim / 2);
}

Config gpt_oss(int num_layers, int num_experts) {
  Config config;
  config.num_layers = num_layers;
  config.num_experts = num_experts;
  config.hidden = config.intermediate = 2880;
  config.num_heads = 64;
  config.num_kv_heads = 8;
  config.experts_per_token = 4;
  config.vocab = 201088;
  config.eos = {200002};
  config.layer_kinds = alternating(num_layers);
  return config;
}

// Returns the shortest decimal that reads back as the same float: 1e-05, not 9.999999747378752e-06.
double in_decimal(float value) {
  const std::string text = fmt::format("{}", value);
  double decimal{0};
  std::from_chars(text.data(), text.data() + text.size(), decimal);
  return decimal;
}

}  // namespace

Config parse_config(std::string_view text, const std::string& origin) {
  constexpr std::string_view kByteOrderMark{"\xEF\xBB\xBF"};  // some editors on Windows write it
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  simdjson::dom::parser parser;
  const Fields fields(parse_untrusted_json(parser, text, kMaxDepth, origin), origin);
  const bool is_openai = fields.find("rope_scaling_factor") && !fields.find("model_type");
  Config config = is_openai ? read_openai(fields) : read_huggingface(fields);
  check_yarn(config, origin);
  return config;
}

Config read_config(const std::filesystem::path& file) {
  return parse_config(read_text_file(file, kMaxFileBytes), file.string());
}

std::string to_json(const Config& config) {
  Json object;
  object["architectures"] = {"GptOssForCausalLM"};
  object["model_type"] = "gpt_oss";
  object["num_hidden_layers"] = config.num_layers;
  object["hidden_size"] = config.hidden;
  object["intermediate_size"] = config.intermediate;
  object["num_attention_heads"] = config.num_heads;
  object["num_key_value_heads"] = config.num_kv_heads;
  object["head_dim"] = config.head_dim;
  object["num_local_experts"] = config.num_experts;
  object["num_experts_per_tok"] = config.experts_per_token;
  object["vocab_size"] = config.vocab;
  object["sliding_window"] = config.window;
  object["layer_types"] = nlohmann::json::array();
  for (const LayerKind kind : config.layer_kinds)
    object["layer_types"].push_back(kind == LayerKind::kSliding ? kSlidingName : kFullName);
  object["rms_norm_eps"] = in_decimal(config.rms_eps);
  object["swiglu_limit"] = in_decimal(config.swiglu_limit);
  object["rope_theta"] = config.rope.theta;
  object["rope_scaling"] = {{"rope_type", "yarn"},
                            {"factor", config.rope.factor},
                            {"beta_fast", config.rope.beta_fast},
                            {"beta_slow", config.rope.beta_slow},
                            {"original_max_position_embeddings", config.rope.original_context},
                            {"truncate", config.rope.truncate}};
  object["max_position_embeddings"] = config.max_context;
  if (config.eos.size() == 1) object["eos_token_id"] = config.eos[0];
  if (config.eos.size() > 1) object["eos_token_id"] = config.eos;
  object["hidden_act"] = "silu";
  object["attention_bias"] = true;
  object["tie_word_embeddings"] = false;
  object["quantization_config"] = {
      {"quant_method", "mxfp4"},
      {"modules_to_not_convert",
       {"model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"}}};
  return object.dump(2) + "\n";
}

std::optional<Config> named_config(std::string_view name) {
  if (name == "gpt-oss-20b") return gpt_oss(24, 32);
  if (name == "gpt-oss-120b") return gpt_oss(36, 128);
  return std::nullopt;
}

}  // namespace nibble
