#include "model/adapter/peft_config.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>

#include "core/errors/error.h"
#include "core/text/word_list.h"
#include "formats/untrusted_json.h"
#include "model/json_fields.h"

namespace nibble {
namespace {

using Element = simdjson::dom::element;

// Fields that do not change the result. They say how the adapter was made, or which modules it changes, which
// the names of its tensors show too.
constexpr std::string_view kUnusedPeftFields{
    "auto_mapping base_model_name_or_path corda_config ensure_weight_tying eva_config exclude_modules "
    "inference_mode layers_pattern loftq_config lora_dropout layers_to_transform lora_ga_config "
    "megatron_config megatron_core peft_version qalora_group_size revision runtime_config target_modules "
    "target_parameters task_type"};
// Fields that parse_peft_config() reads.
constexpr std::string_view kPeftFields{
    "peft_type r lora_alpha use_rslora rank_pattern alpha_pattern init_lora_weights"};
// Fields that must be absent, null, false, empty or "none".
struct RefusedField {
  std::string_view name, meaning;
};
constexpr RefusedField kRefusedPeftFields[] = {
    {"use_dora", "it is a DoRA adapter, which scales the rows of the merged matrix"},
    {"use_qalora", "it is a QALoRA adapter, which averages groups of inputs"},
    {"use_bdlora", "it is a BD-LoRA adapter, which has block-diagonal factors"},
    {"lora_bias", "it has biases of its own"},
    {"bias", "it has biases of its own"},
    {"fan_in_fan_out", "it is for a model with transposed matrices, which gpt-oss is not"},
    {"modules_to_save", "it replaces whole modules"},
    {"trainable_token_indices", "it replaces rows of the embedding"},
    {"layer_replication", "it is for a model with repeated layers"},
    {"alora_invocation_tokens", "it is an activated LoRA, which starts at certain tokens of a prompt"},
    {"arrow_config", "it routes tokens among adapters"},
};

// Values of `init_lora_weights` that leave the base model unchanged. All others (PiSSA, OLoRA, CorDA, LoftQ,
// LoRA-GA) subtract the adapter's initial update from the base model's weights.
constexpr std::string_view kHarmlessStarts{"gaussian eva orthogonal mica"};

constexpr std::string_view kAdvice{"merge it with PEFT (merge_and_unload) and give the result as the model"};

bool is_empty(Element value) {
  bool flag{true};
  if (!value.get(flag)) return !flag;
  std::string_view text;
  if (!value.get(text)) return text.empty() || text == "none";
  simdjson::dom::array array;
  if (!value.get(array)) return array.size() == 0;
  simdjson::dom::object object;
  if (!value.get(object)) return object.size() == 0;
  return value.is_null();
}

void check_names(Element whole, const std::filesystem::path& file) {
  simdjson::dom::object fields;
  if (whole.get(fields)) return;  // not an object: Fields has thrown already
  for (const auto [name, value] : fields) {
    if (has_word(kUnusedPeftFields, name) || has_word(kPeftFields, name) || is_empty(value)) continue;
    const auto* row = std::ranges::find(kRefusedPeftFields, name, &RefusedField::name);
    if (row != std::end(kRefusedPeftFields))
      throw InputError("{}: '{}' says that {}; nibble does not apply that: {}", file.string(), name,
                       row->meaning, kAdvice);
    throw InputError("{}: unknown field {:?}, which may change what the adapter does: {}", file.string(),
                     name.substr(0, 80), kAdvice);
  }
}

void check_start(const Fields& fields, const std::filesystem::path& file) {
  const auto start = fields.find("init_lora_weights");
  std::string_view text;
  if (!start || start->get(text) || has_word(kHarmlessStarts, text)) return;
  throw InputError(
      "{}: 'init_lora_weights' {:?} changes the base model, and the adapter fits only what is left of it: {}",
      file.string(), text.substr(0, 80), kAdvice);
}

std::vector<std::pair<std::string, double>> read_pattern(const Fields& fields, std::string_view name,
                                                         double least, double most) {
  std::vector<std::pair<std::string, double>> pattern;
  const auto value = fields.find(name);
  simdjson::dom::object object;
  if (!value) return pattern;
  if (value->get(object)) fields.refuse(name, "an object");
  const Fields numbers = fields.object(name);
  for (const auto [module, number] : object) {
    const auto is_plain = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
    };
    if (!std::ranges::all_of(module, is_plain))
      fields.refuse(name, "names of modules, not regular expressions");
    pattern.emplace_back(module, numbers.number(module, least, most));
  }
  return pattern;
}

// Returns the value of the first row of a pattern whose name is the end of the module's name, or `other`.
double value_of(std::string_view module, const std::vector<std::pair<std::string, double>>& pattern,
                double other) {
  const auto fits = [&](const auto& row) { return module == row.first || module.ends_with("." + row.first); };
  const auto row = std::ranges::find_if(pattern, fits);
  return row == pattern.end() ? other : row->second;
}

}  // namespace

int PeftConfig::rank_of(std::string_view module) const {
  return static_cast<int>(value_of(module, own_ranks, rank));
}

float PeftConfig::scale_of(std::string_view module, int rank_of_module) const {
  const double own = value_of(module, own_alphas, alpha);
  return static_cast<float>(own / (is_rank_stabilised ? std::sqrt(rank_of_module) : rank_of_module));
}

PeftConfig parse_peft_config(std::string_view json, const std::filesystem::path& file) {
  constexpr size_t kMaxDepth{32};
  constexpr double kMostAlpha{1e6};
  constexpr int kMostRank{1 << 16};
  simdjson::dom::parser parser;
  const Element whole = parse_untrusted_json(parser, json, kMaxDepth, file);
  const Fields fields(whole, file.string());
  if (!fields.find("peft_type")) fields.refuse("peft_type", "\"LORA\"");
  fields.must_be("peft_type", "LORA");
  check_names(whole, file);
  check_start(fields, file);
  PeftConfig config;
  config.alpha = fields.number("lora_alpha", -kMostAlpha, kMostAlpha);
  config.rank = fields.integer({"r"}, 1, kMostRank);
  config.is_rank_stabilised = fields.boolean_or("use_rslora", false);
  config.own_ranks = read_pattern(fields, "rank_pattern", 1, kMostRank);
  config.own_alphas = read_pattern(fields, "alpha_pattern", -kMostAlpha, kMostAlpha);
  std::string_view base;
  if (const auto value = fields.find("base_model_name_or_path"); value && !value->get(base))
    config.base_model = base;
  return config;
}

}  // namespace nibble
