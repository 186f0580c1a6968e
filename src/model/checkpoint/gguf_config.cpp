#include "model/checkpoint/gguf_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/text/json.h"
#include "core/text/word_list.h"
#include "formats/container_error.h"

namespace nibble {
namespace {

constexpr std::string_view kArchitecture{"gpt-oss"}, kConfigPrefix{"gpt-oss."};
constexpr std::string_view kOllamaPrefix{"gptoss."};

// Accepted metadata keys, without the prefix. Others may change what the model computes and are refused.
constexpr std::string_view kKnownKeys{
    "block_count context_length embedding_length feed_forward_length expert_feed_forward_length "
    "attention.head_count attention.head_count_kv attention.key_length attention.value_length "
    "attention.layer_norm_rms_epsilon attention.sliding_window attention.sliding_window_pattern "
    "expert_count expert_used_count vocab_size rope.dimension_count rope.freq_base rope.freq_base_swa "
    "rope.scaling.type rope.scaling.factor rope.scaling.original_context_length rope.scaling.finetuned "
    "rope.scaling.yarn_beta_fast rope.scaling.yarn_beta_slow"};

// Keys that a file may omit, with the values that llama.cpp then uses. llama.cpp's converter did not write
// these keys when most files were published. Ollama's files also lack rope.scaling.type (taken as YaRN) and
// the width of an expert (taken from its tensors). Every other key must be present.
struct AbsentKey {
  std::string_view key;
  double value;
};
constexpr AbsentKey kAbsentKeys[] = {
    {"attention.sliding_window_pattern", 2},  // a period of 2: layers 0, 2, 4, ... are sliding
    {"rope.scaling.yarn_beta_fast", 32},
    {"rope.scaling.yarn_beta_slow", 1},
};

class ConfigReader {  // errors name the file and the key
 public:
  explicit ConfigReader(const Gguf& gguf)
      : gguf_(gguf), prefix_(is_of_ollama(gguf) ? kOllamaPrefix : kConfigPrefix) {}

  const GgufValue* find(std::string_view key) const {
    return gguf_.value(std::string(prefix_) + std::string(key));
  }

  int64_t integer(std::string_view key) const {
    const GgufValue* value = find(key);
    const std::optional<int64_t> number = value ? value->integer() : std::nullopt;
    if (!number) refuse(key, value ? "is not a whole number" : "is missing");
    return *number;
  }
  double number(std::string_view key) const {
    const GgufValue* value = find(key);
    const std::optional<double> number = value ? value->number() : std::nullopt;
    if (!number || !std::isfinite(*number)) refuse(key, value ? "is not a finite number" : "is missing");
    return *number;
  }
  // Returns the value of a key that kAbsentKeys lists: the file's, or else the list's.
  double number_or_known(std::string_view key) const {
    if (find(key)) return number(key);
    const auto* row = std::ranges::find(kAbsentKeys, key, &AbsentKey::key);
    NIBBLE_CHECK(row != std::end(kAbsentKeys), "no value for an absent {}", key);
    return row->value;
  }
  // Checks a key whose value follows from another key: if present, it must have that value.
  void must_be(std::string_view key, double expected) const {
    if (find(key) && number(key) != expected)
      refuse(key, fmt::format("is {}; expected {}", number(key), expected));
  }
  std::string_view one_of(std::string_view key, std::initializer_list<std::string_view> accepted) const {
    const GgufValue* value = find(key);
    const std::optional<std::string_view> text = value ? value->text() : std::nullopt;
    const auto* found = text ? std::ranges::find(accepted, *text) : accepted.end();
    if (found == accepted.end())
      refuse(key, fmt::format("is {}; expected {}",
                              text    ? in_quotes(*text)
                              : value ? "not a string"
                                      : "missing",
                              fmt::join(accepted, " or ")));
    return *found;
  }

  [[noreturn]] void refuse(std::string_view key, const std::string& why) const {
    throw InputError("{}: metadata '{}{}' {}", path(), prefix_, key, why);
  }
  std::string path() const { return gguf_.files[0].string(); }
  bool is_ollamas() const { return prefix_ == kOllamaPrefix; }

 private:
  const Gguf& gguf_;
  std::string_view prefix_;
};

void check_architecture(const Gguf& gguf) {
  if (const GgufValue* type = gguf.value("general.type"); type && type->text() == "adapter")
    throw InputError("{}: is a LoRA adapter, not a model. Give its model, and this file with --lora",
                     gguf.files[0].string());
  const GgufValue* value = gguf.value("general.architecture");
  const std::optional<std::string_view> name = value ? value->text() : std::nullopt;
  if (name == kArchitecture || name == kOllamaArchitecture) return;
  throw InputError("{}: 'general.architecture' is {}; expected \"{}\" (or Ollama's \"{}\")",
                   gguf.files[0].string(), name ? in_quotes(*name) : "missing", kArchitecture,
                   kOllamaArchitecture);
}

void check_keys(const Gguf& gguf) {
  const std::string_view prefix = is_of_ollama(gguf) ? kOllamaPrefix : kConfigPrefix;
  for (const auto& [key, value] : gguf.metadata) {
    if (!key.starts_with(kConfigPrefix) && !key.starts_with(kOllamaPrefix)) continue;
    if (!key.starts_with(prefix) || !has_word(kKnownKeys, key.substr(prefix.size())))
      throw InputError("{}: unknown metadata key {}, which may change what the model computes",
                       gguf.files[0].string(), in_quotes(key));
  }
}

// The window pattern is one boolean per layer, or a period p: of every p layers the last one is full, the
// others are sliding.
Json layer_types(const ConfigReader& reader, int64_t num_layers) {
  constexpr std::string_view kKey{"attention.sliding_window_pattern"};
  constexpr int64_t kMostLayers{1 << 16};  // parse_config() limits it further
  if (num_layers < 1 || num_layers > kMostLayers)
    reader.refuse("block_count", "is not a valid number of layers");
  const GgufValue* value = reader.find(kKey);
  std::vector<int64_t> slides;
  if (value && value->type == GgufType::kArray) {
    const auto flags = value->element_type == GgufType::kBool ? value->integers() : std::nullopt;
    if (!flags || flags->size() != static_cast<size_t>(num_layers))
      reader.refuse(kKey, fmt::format("is neither a list of {} booleans nor a number", num_layers));
    slides = *flags;
  } else {
    const int64_t period = value ? reader.integer(kKey) : static_cast<int64_t>(reader.number_or_known(kKey));
    if (period < 1) reader.refuse(kKey, fmt::format("is {}; expected 1 or more", period));
    for (int64_t i = 0; i < num_layers; ++i) slides.push_back(i % period < period - 1);
  }
  Json types = Json::array();
  for (const int64_t slide : slides) types.push_back(slide ? "sliding_attention" : "full_attention");
  return types;
}

Json rope_scaling(const ConfigReader& reader) {
  constexpr std::string_view kType{"rope.scaling.type"}, kFactor{"rope.scaling.factor"};
  const bool is_implied = reader.is_ollamas() && !reader.find(kType);
  if (!is_implied && reader.one_of(kType, {"yarn", "none"}) == "none") {
    if (reader.find(kFactor) && reader.number(kFactor) != 1)
      reader.refuse(kFactor, fmt::format("is {}, but rope.scaling.type is none", reader.number(kFactor)));
    return {{"rope_type", "default"}};
  }
  return {{"rope_type", "yarn"},
          {"factor", reader.number(kFactor)},
          {"original_max_position_embeddings", reader.integer("rope.scaling.original_context_length")},
          {"beta_fast", reader.number_or_known("rope.scaling.yarn_beta_fast")},
          {"beta_slow", reader.number_or_known("rope.scaling.yarn_beta_slow")},
          {"truncate", false}};
}

int64_t expert_width(const ConfigReader& reader, const Gguf& gguf) {
  constexpr std::string_view kKey{"expert_feed_forward_length"};
  const GgufTensor* down = gguf.find("blk.0.ffn_down_exps.weight");
  if (reader.find(kKey) || !reader.is_ollamas() || !down || down->shape.size() != 3)
    return reader.integer(kKey);
  const uint64_t width = down->shape[2];
  if (width > uint64_t{INT32_MAX}) reader.refuse(kKey, fmt::format("is missing, and a tensor has {}", width));
  return static_cast<int64_t>(width);
}

Json eos(const Gguf& gguf) {  // files have a key for one end token; some also have a list of end tokens
  Json ids = Json::array();
  const auto refuse = [&](std::string_view key) {
    throw InputError("{}: metadata '{}' is not a token id or a list of them", gguf.files[0].string(), key);
  };
  constexpr std::string_view kOne{"tokenizer.ggml.eos_token_id"}, kMany{"tokenizer.ggml.eos_token_ids"};
  if (const GgufValue* value = gguf.value(kOne)) {
    if (!value->integer()) refuse(kOne);
    ids.push_back(*value->integer());
  }
  if (const GgufValue* value = gguf.value(kMany)) {
    const auto list = value->integers();
    if (!list) refuse(kMany);
    for (const int64_t id : *list)
      if (std::ranges::find(ids, Json(id)) == ids.end()) ids.push_back(id);
  }
  return ids;
}

// The vocabulary size is the embedding's number of rows: the list of tokens may be shorter or absent.
uint64_t vocab_size(const Gguf& gguf) {
  const GgufTensor* embedding = gguf.find("token_embd.weight");
  if (!embedding || embedding->shape.size() != 2)
    throw InputError("{}: has no matrix 'token_embd.weight'; all files of the model are needed",
                     gguf.files[0].string());
  return embedding->shape[0];
}

}  // namespace

bool is_of_ollama(const Gguf& gguf) {
  const GgufValue* architecture = gguf.value("general.architecture");
  return architecture && architecture->text() == kOllamaArchitecture;
}

Config gguf_config(const Gguf& gguf) {
  check_architecture(gguf);
  check_keys(gguf);
  const ConfigReader reader(gguf);
  Json config{{"model_type", "gpt_oss"},
              {"num_hidden_layers", reader.integer("block_count")},
              {"hidden_size", reader.integer("embedding_length")},
              {"intermediate_size", expert_width(reader, gguf)},
              {"num_attention_heads", reader.integer("attention.head_count")},
              {"num_key_value_heads", reader.integer("attention.head_count_kv")},
              {"head_dim", reader.integer("attention.key_length")},
              {"num_local_experts", reader.integer("expert_count")},
              {"num_experts_per_tok", reader.integer("expert_used_count")},
              {"vocab_size", vocab_size(gguf)},
              {"max_position_embeddings", reader.integer("context_length")},
              {"sliding_window", reader.integer("attention.sliding_window")},
              {"layer_types", layer_types(reader, reader.integer("block_count"))},
              {"rms_norm_eps", reader.number("attention.layer_norm_rms_epsilon")},
              {"rope_theta", reader.number("rope.freq_base")},
              {"rope_scaling", rope_scaling(reader)},
              {"eos_token_id", eos(gguf)}};
  const auto head_dim = static_cast<double>(reader.integer("attention.key_length"));
  reader.must_be("attention.value_length", head_dim);
  reader.must_be("rope.dimension_count", head_dim);
  reader.must_be("rope.freq_base_swa", reader.number("rope.freq_base"));
  reader.must_be("vocab_size", static_cast<double>(vocab_size(gguf)));
  return parse_config(config.dump(),
                      fmt::format("{}: its metadata, converted to a config.json", reader.path()));
}

void add_config(const Config& config, const std::string& origin, GgufMetadata& metadata) {
  if (config.swiglu_limit != Config{}.swiglu_limit)
    throw InputError("{}: the SwiGLU limit is {}; GGUF has no key for it and assumes {}", origin,
                     config.swiglu_limit, Config{}.swiglu_limit);
  if (config.rope.factor != 1 && config.rope.truncate)
    throw InputError("{}: uses YaRN with truncation, for which GGUF has no key", origin);
  const auto key = [](std::string_view name) { return std::string(kConfigPrefix) + std::string(name); };
  const auto add = [&](std::string_view name, int value) {
    metadata.add(key(name), static_cast<uint32_t>(value));
  };
  const auto add_float = [&](std::string_view name, double value) {
    if (static_cast<double>(static_cast<float>(value)) != value)
      throw InputError("{}: {} is {}, which GGUF's float32 can't represent", origin, name, value);
    metadata.add(key(name), static_cast<float>(value));
  };
  metadata.add("general.architecture", kArchitecture);
  metadata.add("general.type", std::string_view("model"));
  metadata.add("general.quantization_version", uint32_t{2});
  add("block_count", config.num_layers);
  add("context_length", config.max_context);
  add("embedding_length", config.hidden);
  add("feed_forward_length", config.intermediate);
  add("expert_feed_forward_length", config.intermediate);
  add("attention.head_count", config.num_heads);
  add("attention.head_count_kv", config.num_kv_heads);
  add("attention.key_length", config.head_dim);
  add("attention.value_length", config.head_dim);
  metadata.add(key("attention.layer_norm_rms_epsilon"), config.rms_eps);
  add("attention.sliding_window", config.window);
  std::vector<uint8_t> slides;
  bool alternates = true;
  for (const LayerKind kind : config.layer_kinds) {
    slides.push_back(kind == LayerKind::kSliding);
    alternates &= slides.back() == slides.size() % 2;
  }
  if (!alternates) metadata.add_booleans(key("attention.sliding_window_pattern"), slides);
  add("expert_count", config.num_experts);
  add("expert_used_count", config.experts_per_token);
  add("vocab_size", config.vocab);
  add_float("rope.freq_base", config.rope.theta);
  metadata.add(key("rope.scaling.type"), std::string_view(config.rope.factor == 1 ? "none" : "yarn"));
  if (config.rope.factor != 1) {
    add_float("rope.scaling.factor", config.rope.factor);
    add("rope.scaling.original_context_length", config.rope.original_context);
    add_float("rope.scaling.yarn_beta_fast", config.rope.beta_fast);
    add_float("rope.scaling.yarn_beta_slow", config.rope.beta_slow);
  }
  if (config.eos.empty()) return;
  metadata.add("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(config.eos[0]));
  if (config.eos.size() > 1)
    metadata.add("tokenizer.ggml.eos_token_ids", std::vector<int32_t>(config.eos.begin(), config.eos.end()));
}

}  // namespace nibble
