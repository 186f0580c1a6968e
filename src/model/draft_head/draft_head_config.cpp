// Reads the configuration of a draft head. A field that could change what the head computes is read, or
// checked against the one value that nibble implements. Unknown fields are refused.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "formats/untrusted_json.h"
#include "model/draft_head/draft_head.h"
#include "model/json_fields.h"

namespace nibble {
namespace {

using Element = Fields::Element;

constexpr int kMaxDraftWidth{1 << 18}, kMaxDraftHeads{1024}, kMaxDraftHeadDim{1024},
    kMaxDraftContext{1 << 24};
constexpr size_t kMaxDraftDepth{32};

void must_be_one_of(const Fields& fields, std::string_view name,
                    std::initializer_list<std::string_view> accepted) {
  const std::optional<Element> field = fields.find(name);
  if (!field) return;
  const std::string text = simdjson::minify(*field);
  if (std::ranges::none_of(accepted, [&](std::string_view value) { return text == value; }))
    fields.refuse(name, fmt::format("{}", fmt::join(accepted, " or ")));
}

// Reads an integer that must equal the model's value.
int of_model(const Fields& fields, std::string_view name, int value) {
  if (fields.integer({name}, 1, kMaxDraftContext) != value)
    fields.refuse(name, fmt::format("{} (the model's value): the head was made for another model", value));
  return value;
}

void read_rope(const Fields& fields, DraftHeadConfig& config) {
  constexpr std::string_view kNew{"rope_parameters"}, kOld{"rope_scaling"};
  const std::string_view name = fields.find(kNew) ? kNew : kOld;
  if (!fields.find(name)) {
    config.rope_theta = fields.number_or("rope_theta", config.rope_theta, 1.001, 1e12);
    return;
  }
  const Fields rope = fields.object(name);
  rope.only({"rope_type", "type", "rope_theta", "factor", "low_freq_factor", "high_freq_factor",
             "original_max_position_embeddings"});
  config.rope_theta =
      (rope.find("rope_theta") ? rope : fields).number_or("rope_theta", config.rope_theta, 1.001, 1e12);
  fields.must_be_number("rope_theta", config.rope_theta);
  const std::string_view type_name = rope.find("rope_type") ? "rope_type" : "type";
  must_be_one_of(rope, type_name, {R"("default")", R"("llama3")"});
  const std::optional<Element> type = rope.find(type_name);
  if (!type) rope.refuse(type_name, R"("default" or "llama3")");
  if (simdjson::minify(*type) == R"("default")") return;
  config.llama3 =
      Llama3Rope{.factor = rope.number("factor", 1, 1e6),
                 .low_turns = rope.number("low_freq_factor", 1e-3, 1e6),
                 .high_turns = rope.number("high_freq_factor", 1e-3, 1e6),
                 .original_context = rope.integer({"original_max_position_embeddings"}, 1, kMaxDraftContext)};
  if (config.llama3->high_turns <= config.llama3->low_turns)
    rope.refuse("high_freq_factor", "a number above low_freq_factor");
}

// Reads the fields of the head's single layer, which have the same names in all formats.
void read_layer(const Fields& fields, const Config& model, DraftHeadConfig& config) {
  config.hidden = of_model(fields, "hidden_size", model.hidden);
  config.vocab = of_model(fields, "vocab_size", model.vocab);
  fields.must_be_number("num_hidden_layers", 1);
  config.intermediate = fields.integer({"intermediate_size"}, 1, kMaxDraftWidth);
  config.num_heads = fields.integer({"num_attention_heads"}, 1, kMaxDraftHeads);
  config.num_kv_heads = fields.integer({"num_key_value_heads"}, 1, kMaxDraftHeads);
  if (config.num_heads % config.num_kv_heads != 0)
    fields.refuse("num_key_value_heads", fmt::format("a divisor of the {} query heads", config.num_heads));
  config.head_dim = fields.integer_or("head_dim", config.hidden / config.num_heads, 2, kMaxDraftHeadDim);
  if (config.head_dim % 2 != 0) fields.refuse("head_dim", "an even number, because RoPE rotates pairs");
  config.rms_eps = static_cast<float>(fields.number_or("rms_norm_eps", config.rms_eps, 1e-30, 1));
  fields.must_be("hidden_act", "silu");
  fields.must_be_flag("attention_bias", false);
  fields.must_be_flag("mlp_bias", false);
  fields.must_be_flag("tie_word_embeddings", false);
  fields.must_be_flag("use_sliding_window", false);
  must_be_one_of(fields, "model_type", {R"("llama")", R"("speculator_model")"});
  read_rope(fields, config);
}

// Reads the layers whose outputs the head takes as input. `first`: the number that the file gives the first
// layer, 0 or 1. Default, from EAGLE-3's authors: layers 1, L / 2 - 1 and L - 4 of layers 0 to L - 1.
void read_taps(const Fields& fields, std::string_view name, int first, const Config& model,
               DraftHeadConfig& config) {
  const int num_layers = model.num_layers;
  const std::optional<Element> field = fields.find(name);
  if (!field) {
    if (num_layers < 6)
      fields.refuse(name, "a list of 3 layers: the model has too few layers for the default");
    config.taps = {1, num_layers / 2 - 1, num_layers - 4};
    return;
  }
  const std::string accepted = fmt::format("3 ascending layers from {} to {}", first, first + num_layers - 1);
  simdjson::dom::array list;
  if (field->get(list) || list.size() != config.taps.size()) fields.refuse(name, accepted);
  int before = -1;
  auto tap = config.taps.begin();
  for (const Element element : list) {
    int64_t id{0};
    if (element.get(id) || id < first || id >= first + num_layers || id - first <= before)
      fields.refuse(name, accepted);
    before = *tap++ = static_cast<int>(id) - first;
  }
}

constexpr std::string_view kTaps{"eagle_aux_hidden_state_layer_ids"};

// Reads the format of SpecForge and Model-Optimizer: the configuration of a one-layer Llama, with an object
// for EAGLE's fields. Layers are numbered from 0.
DraftHeadConfig read_llama(const Fields& fields, const Config& model) {
  DraftHeadConfig config;
  fields.only_of(
      "architectures attention_bias attention_dropout auto_map bos_token_id draft_vocab_size dtype "
      "eagle_config eos_token_id head_dim hidden_act hidden_size initializer_range intermediate_size "
      "max_position_embeddings mlp_bias model_type num_attention_heads num_hidden_layers "
      "num_key_value_heads pad_token_id pretraining_tp rms_norm_eps rope_parameters rope_scaling rope_theta "
      "tie_word_embeddings torch_dtype transformers_version use_cache use_sliding_window vocab_size "
      "target_hidden_size modelopt_version");
  read_layer(fields, model, config);
  if (fields.find("target_hidden_size")) of_model(fields, "target_hidden_size", model.hidden);
  config.draft_vocab = fields.integer_or("draft_vocab_size", config.vocab, 1, config.vocab);
  if (!fields.find("eagle_config")) {
    read_taps(fields, kTaps, 0, model, config);
    return config;
  }
  const Fields eagle = fields.object("eagle_config");
  eagle.only({kTaps, "use_aux_hidden_state", "use_last_layernorm", "use_input_layernorm_in_first_layer",
              "use_mtp_layernorm", "next_layer_regular", "parallel_draft_step",
              "parallel_draft_heads_num_layers", "norm_before_fc"});
  for (const std::string_view name : {"use_aux_hidden_state", "use_last_layernorm",
                                      "use_input_layernorm_in_first_layer", "next_layer_regular"})
    eagle.must_be_flag(name, true);
  eagle.must_be_flag("use_mtp_layernorm", false);
  eagle.must_be_number("parallel_draft_step", 1);
  eagle.must_be_number("parallel_draft_heads_num_layers", 1);
  config.norm_before_fc = eagle.boolean_or("norm_before_fc", false);
  read_taps(eagle, kTaps, 0, model, config);
  return config;
}

// Reads the format of speculators, with an object for the Llama's configuration. Layers are numbered from 1.
DraftHeadConfig read_speculators(const Fields& fields, const Config& model) {
  DraftHeadConfig config;
  fields.only_of(
      "architectures auto_map draft_vocab_size dtype embed_requires_grad "
      "fc_norm has_no_defaults_at_init model_type norm_before_fc norm_before_residual norm_output "
      "speculators_config speculators_model_type speculators_version target_hidden_size tie_word_embeddings "
      "torch_dtype transformer_layer_config transformers_version",
      kTaps);
  fields.must_be("speculators_model_type", "eagle3");
  fields.must_be_flag("tie_word_embeddings", false);
  fields.must_be_flag("fc_norm", false);
  must_be_one_of(fields, "model_type", {R"("speculator_model")"});
  read_layer(fields.object("transformer_layer_config"), model, config);
  if (fields.find("target_hidden_size")) of_model(fields, "target_hidden_size", model.hidden);
  config.draft_vocab = fields.integer_or("draft_vocab_size", config.vocab, 1, config.vocab);
  config.norm_before_fc = fields.boolean_or("norm_before_fc", false);
  config.norm_before_residual = fields.boolean_or("norm_before_residual", false);
  config.norm_output = fields.boolean_or("norm_output", false);
  read_taps(fields, kTaps, 1, model, config);
  return config;
}

}  // namespace

DraftHeadConfig parse_draft_head_config(std::string_view text, const std::string& origin,
                                        const Config& model) {
  simdjson::dom::parser parser;
  const Fields fields(parse_untrusted_json(parser, text, kMaxDraftDepth, origin), origin);
  if (!fields.find("architectures")) fields.refuse("architectures", "the architecture of an EAGLE-3 head");
  must_be_one_of(fields, "architectures",
                 {R"(["LlamaForCausalLMEagle3"])", R"(["Eagle3Speculator"])", R"(["Eagle3DraftModel"])"});
  return fields.find("transformer_layer_config") ? read_speculators(fields, model)
                                                 : read_llama(fields, model);
}

RopeFrequencies rope_frequencies(const DraftHeadConfig& config) {
  RopeFrequencies rope{.frequencies = {}, .concentration = 1};
  for (int i = 0; i < config.head_dim / 2; ++i) {
    double frequency = std::pow(config.rope_theta, -2.0 * i / config.head_dim);
    if (config.llama3) {
      const auto& [factor, low_turns, high_turns, original_context] = *config.llama3;
      const double turns = original_context * frequency / (2 * std::numbers::pi);
      const double kept = std::clamp((turns - low_turns) / (high_turns - low_turns), 0.0, 1.0);
      frequency *= kept + (1 - kept) / factor;
    }
    rope.frequencies.push_back(static_cast<float>(frequency));
  }
  return rope;
}

}  // namespace nibble
