#include "core/settings.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <type_traits>

#include "core/error.h"

namespace nibble {
namespace {

using enum SettingGroup;
using S = Settings;

// A value above an upper bound can only be a typing error. The bounds also keep the
// product of two settings in an int.
constexpr Setting kTable[] = {
    {"reasoning", kInstruction, "LEVEL", "how long the model thinks: low, medium, high", "",
     ChoiceField<std::string>{&S::reasoning, {"low", "medium", "high"}}},
    {"system", kInstruction, "TEXT", "instructions to the model (harmony's developer message)", "none",
     TextField{&S::system}},
    {"date", kDate, "DATE", "the day that the model is told it is, as 2025-06-28", "today",
     DateField{&S::date}},

    {"temperature", kSampling, "X", "0: always the likeliest token; 1: as the model has it", "",
     NumberField<double>{&S::temperature, 0, 2}},
    {"top-k", kSampling, "N", "choose among the N likeliest tokens; 0: all", "",
     NumberField<int>{&S::top_k, 0, 1 << 20}},
    {"top-p", kSampling, "X", "choose among the likeliest that together have probability X", "",
     NumberField<double>{&S::top_p, 0, 1, true}},
    {"min-p", kSampling, "X", "leave out what is less likely than X times the likeliest", "",
     NumberField<double>{&S::min_p, 0, 1}},
    {"repetition-penalty", kSampling, "X", "divides the logits of tokens seen before; 1: none", "",
     NumberField<double>{&S::repetition_penalty, 0.01, 100}},
    {"presence-penalty", kSampling, "X", "taken from the logits of tokens that the answer has", "",
     NumberField<double>{&S::presence_penalty, -2, 2}},
    {"frequency-penalty", kSampling, "X", "the same, once for each time the answer has them", "",
     NumberField<double>{&S::frequency_penalty, -2, 2}},
    {"seed", kAnswer, "N", "same seed, same text", "another one each time",
     NumberField<std::optional<uint64_t>>{&S::seed, 0, 0x1p64}},
    {"max-tokens", kAnswer, "N", "end the answer after N tokens, reasoning included",
     "what the context has room for", NumberField<std::optional<int>>{&S::max_tokens, 1, 1 << 20}, "", "n"},
    {"reasoning-budget", kAnswer, "N", "end the reasoning after N tokens; 0: none of it, -1: no limit",
     "no limit", NumberField<std::optional<int>>{&S::reasoning_budget, -1, 1 << 20}},
    {"stop", kAnswer, "TEXT", "end the answer before TEXT; may be given several times", "none",
     TextListField{&S::stop}},
    {"json-schema", kAnswer, "FILE", "hold the answer to the JSON schema in FILE", "none",
     TextField{&S::json_schema}},
    {"grammar", kAnswer, "FILE", "hold the answer to the grammar (GBNF) in FILE", "none",
     TextField{&S::grammar}},
    {"logprobs", kDetail, "N", "with --json: log-probability of each token and of the N likeliest", "none",
     NumberField<std::optional<int>>{&S::logprobs, 0, 20}},

    {"backend", kMachine, "NAME", "what runs the model: cuda, cpu, or reference (slow)", "the best one",
     TextField{&S::backend}},
    {"threads", kMachine, "N", "threads to run on", "all cores",
     NumberField<std::optional<int>>{&S::threads, 1, 1024}, "", "t"},
    {"isa", kMachine, "NAME", "instruction set on a CPU; --version says which it has", "the best one",
     ChoiceField<std::optional<std::string>>{&S::isa,
                                             {"portable", "avx2", "avx_vnni", "avx512", "avx512_vnni", "amx",
                                              "neon", "neon_dotprod", "neon_i8mm"}}},
    {"tuning", kMachine, "FILE", "what 'nibble tune' found for this CPU; off: none of that",
     "~/.cache/nibble/tuning.json, if there", TextField{&S::tuning}},
    {"mxfp4-layers", kMachine, "LIST", "quantise to MXFP4 at load: moe, qkv, o, lm_head, or all",
     "as the checkpoint has them", TextField{&S::mxfp4_layers}},
    {"fp8-layers", kMachine, "LIST", "quantise to FP8 (E4M3) at load: qkv, o, lm_head, or all",
     "as the checkpoint has them", TextField{&S::fp8_layers}},
    {"kv-dtype", kMachine, "NAME", "what keys and values are stored in: bf16, fp8 (E4M3)", "",
     ChoiceField<std::string>{&S::kv_dtype, {"bf16", "fp8"}}},
    {"experts-activations", kMachine, "NAME", "what experts take on a CPU: int8 (a scale for each 32), float",
     "int8, but with --isa portable",
     ChoiceField<std::optional<std::string>>{&S::experts_activations, {"int8", "float"}}},
    {"prompt-activations", kMachine, "NAME",
     "what experts take of prompts on a GPU: bf16, mxfp8x2 (as exact), mxfp8, mxfp4", "bf16, as in decoding",
     ChoiceField<std::optional<std::string>>{&S::prompt_activations, {"bf16", "mxfp8x2", "mxfp8", "mxfp4"}}},
    {"require", kMachine, "LIST", "refuse unless operations run so: experts=mxfp4/bf16,qkv=bf16", "nothing",
     TextField{&S::require}},
    {"jit", kMachine, "WHETHER",
     "let the driver compile PTX on a GPU that nibble has no machine code for: on, off", "",
     SwitchField{&S::jit}},
    {"graphs", kMachine, "WHETHER", "run a GPU's decode steps as CUDA graphs: on, off", "",
     SwitchField{&S::graphs}, "", "", "no-graphs"},
    {"context", kMachine, "N", "the most tokens of prompt and answer together",
     "32768, or the model's if less", NumberField<std::optional<int>>{&S::context, 1, 1 << 20},
     "max-model-len", "c"},
    {"max-batch-tokens", kMachine, "N", "tokens that pass through the model at once",
     "8192 on a GPU of 64 GB, 2048 on a smaller one, else 512",
     NumberField<std::optional<int>>{&S::max_batch_tokens, 1, 1 << 16}, "max-num-batched-tokens"},
    {"max-sequences", kBatch, "N", "sequences that run at once", "64 on a GPU of 64 GB, else 16",
     NumberField<std::optional<int>>{&S::max_sequences, 1, 1024}, "max-num-seqs"},
    {"gpu-memory-utilization", kBatch, "X", "share of a GPU's memory that weights and KV cache may take", "",
     NumberField<double>{&S::gpu_memory_utilization, 0, 1, true}},
    {"prefix-cache", kCache, "WHETHER", "run the beginnings that prompts have in common once: on, off", "",
     SwitchField{&S::prefix_cache}},
    {"speculate", kDrafts, "HOW",
     "draft tokens and check several in a step; the text is the same: auto (where it pays), ngram, suffix, "
     "eagle3=FOLDER (auto with an EAGLE-3 head), model=MODEL (auto with a smaller model), off",
     "auto", TextField{&S::speculate}},
    {"speculative-config", kDrafts, "JSON",
     "the same as vLLM has it: '{\"method\": \"ngram\", \"num_speculative_tokens\": 5}'; with \"topk\": K "
     "drafts are trees, of up to K tokens for one place",
     "none", TextField{&S::speculative_config}},
    {"draft-head-dtype", kDrafts, "NAME",
     "what a draft head's matrices are held in: mxfp4, or bf16, as its file has them", "",
     ChoiceField<std::string>{&S::draft_head_dtype, {"mxfp4", "bf16"}}},

    {"shared-budget", kDevice, "KB", "run the kernels of a GPU that has so much shared memory per CTA",
     "the most that this GPU has",
     ChoiceField<std::optional<std::string>>{&S::shared_budget, {"99", "163", "227"}}},
    {"multiprocessors", kDevice, "N", "launch as on a GPU with N multiprocessors", "all that it has",
     NumberField<std::optional<int>>{&S::multiprocessors, 1, 1024}},

    {"tensor-parallel-size", kGpus, "N",
     "share the model among N GPUs, each with a part of every layer; also -tp",
     "1, or as many as --gpus names", NumberField<std::optional<int>>{&S::tensor_parallel_size, 1, 64}, "tp"},
    {"gpus", kGpus, "LIST", "run on these GPUs: 0,2,3", "the first ones", TextField{&S::gpus}},
    {"tensor-split", kGpus, "LIST", "parts of the model that each GPU takes: 3,1", "equal ones",
     TextField{&S::tensor_split}},
    {"nccl", kGpus, "FILE",
     "add up over GPUs with NCCL, by this library; nodes, and GPUs that can't write into each other's "
     "memory, do so "
     "anyway",
     "libnccl.so.2, where it is needed", TextField{&S::nccl}},
    {"expert-parallel", kGpus, "",
     "give each GPU, or each machine of --nodes, some of the experts as a whole, in place of a part of each",
     "", SwitchField{&S::expert_parallel}},
    {"data-parallel-attention", kGpus, "",
     "give each GPU some of the sequences, their attention and KV cache, in place of some heads of all", "",
     SwitchField{&S::data_parallel_attention}},

    {"nodes", kNodes, "N",
     "share the model among N machines, each with a part of every layer, on their CPUs or a GPU of each",
     "this one alone", NumberField<std::optional<int>>{&S::nodes, 2, 8}},
    {"node-rank", kNodes, "R", "which of them this is: 0 is the head, which answers; the others help it",
     "none", NumberField<std::optional<int>>{&S::node_rank, 0, 7}},
    {"head", kNodes, "ADDRESS:PORT", "where node 0 listens for the others, on this one address alone", "none",
     TextField{&S::head}},
    {"secret-file", kNodes, "FILE", "the secret that all nodes have in common",
     "what the variable NIBBLE_SECRET holds", TextField{&S::secret_file}},

    {"models", kPlaces, "DIR", "folder of the bundled models", "beside the program", TextField{&S::models}},
    {"tokenizer", kPlaces, "FILE", "tokenizer.json or .tiktoken; bytes: the 256 bytes alone",
     "the model's own", TextField{&S::tokenizer}},
    {"log-level", kPlaces, "LEVEL", "what else is told on stderr: debug, info, warn, error, off", "",
     ChoiceField<std::string>{&S::log_level, {"debug", "info", "warn", "error", "off"}}},
    {"log-format", kPlaces, "NAME", "how: text; json, an object on each line", "",
     ChoiceField<std::string>{&S::log_format, {"text", "json"}}},
    {"history", kChat, "FILE", "where the lines that were typed are kept; off: nowhere",
     "~/.local/state/nibble/history", TextField{&S::history}},
};

template <typename T>
struct Unwrapped {
  using type = T;
};
template <typename T>
struct Unwrapped<std::optional<T>> {
  using type = T;
};

template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_date(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
  const auto year = parse_number<int>(text.substr(0, 4));
  const auto month = parse_number<unsigned>(text.substr(5, 2));
  const auto day = parse_number<unsigned>(text.substr(8, 2));
  if (!year || !month || !day) return false;
  return std::chrono::year_month_day(std::chrono::year(*year), std::chrono::month(*month),
                                     std::chrono::day(*day))
      .ok();
}

// Parses `text` into the member of the field. One overload per kind of field. Returns
// false if `text` is not accepted.
template <typename Member>
bool assign(Settings& settings, const NumberField<Member>& field, std::string_view text) {
  const auto value = parse_number<typename Unwrapped<Member>::type>(text);
  // Written so that a NaN, also one for text that is not a number, is refused.
  const double number = value ? static_cast<double>(*value) : NAN;
  if (!(number >= field.least && number <= field.most)) return false;
  // Compare as float, the sampler's type: a double just above `least` would round to `least`.
  if (field.is_above_least && !(static_cast<float>(number) > static_cast<float>(field.least))) return false;
  settings.*field.member = *value;
  return true;
}
template <typename Member>
bool assign(Settings& settings, const ChoiceField<Member>& field, std::string_view text) {
  for (const std::string_view choice : field.accepted) {
    if (choice.empty() || choice != text) continue;
    settings.*field.member = std::string(text);
    return true;
  }
  return false;
}
bool assign(Settings& settings, const SwitchField& field, std::string_view text) {
  settings.*field.member = text == "on";
  return text == "on" || text == "off";
}
bool assign(Settings& settings, const TextField& field, std::string_view text) {
  settings.*field.member = std::string(text);
  return true;
}
bool assign(Settings& settings, const DateField& field, std::string_view text) {
  if (is_date(text)) settings.*field.member = std::string(text);
  return is_date(text);
}
bool assign(Settings& settings, const TextListField& field, std::string_view text) {
  if (!text.empty()) (settings.*field.member).emplace_back(text);
  return !text.empty();
}

template <typename Field>
std::vector<std::string_view> choices([[maybe_unused]] const Field& field) {
  std::vector<std::string_view> found;
  if constexpr (requires { field.accepted; })
    for (const std::string_view choice : field.accepted)
      if (!choice.empty()) found.push_back(choice);
  return found;
}

template <typename Member>
std::string describe(const NumberField<Member>& field) {
  using T = typename Unwrapped<Member>::type;
  if constexpr (std::is_same_v<T, uint64_t>)  // field.most is a double, which cannot hold UINT64_MAX
    return fmt::format("a whole number from {} to {}", field.least, UINT64_MAX);
  const char* kind = std::is_integral_v<T> ? "whole number" : "number";
  if (field.is_above_least) return fmt::format("a {} above {}, up to {}", kind, field.least, field.most);
  return fmt::format("a {} from {} to {}", kind, field.least, field.most);
}
template <typename Member>
std::string describe(const ChoiceField<Member>& field) {
  return fmt::format("one of {}", fmt::join(choices(field), ", "));
}
std::string describe(const SwitchField& field) {
  return fmt::format("one of {}", fmt::join(choices(field), ", "));
}
std::string describe(const TextField&) { return "any text"; }
std::string describe(const DateField&) { return "a date as 2025-06-28"; }
std::string describe(const TextListField&) { return "any text of at least one letter"; }

std::string print(bool value) { return value ? "on" : "off"; }
std::string print(int value) { return fmt::to_string(value); }
std::string print(double value) { return fmt::to_string(value); }
std::string print(const std::string& value) { return value; }
template <typename T>
std::string print(const std::optional<T>& value) {
  return value ? fmt::to_string(*value) : std::string();
}
std::string print(const std::vector<std::string>& value) { return fmt::format("{}", fmt::join(value, ", ")); }

std::string with_letter_case(std::string_view name, char dash, bool upper) {
  std::string text(name);
  for (char& letter : text) {
    if (letter == '-') letter = dash;
    if (upper && letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return text;
}

}  // namespace

std::span<const Setting> setting_table() { return kTable; }

std::string flag(const Setting& setting) { return fmt::format("--{}", setting.name); }

std::string variable(const Setting& setting) { return "NIBBLE_" + with_letter_case(setting.name, '_', true); }

std::vector<std::string_view> choices_of(const Setting& setting) {
  return std::visit([](const auto& field) { return choices(field); }, setting.field);
}

std::string accepted(const Setting& setting) {
  return std::visit([](const auto& field) { return describe(field); }, setting.field);
}

std::string default_of(const Setting& setting) { return value_of(Settings{}, setting); }

std::string value_of(const Settings& settings, const Setting& setting) {
  std::string text =
      std::visit([&](const auto& field) { return print(settings.*field.member); }, setting.field);
  return text.empty() ? std::string(setting.unset) : text;
}

void set(Settings& settings, const Setting& setting, std::string_view text, std::string_view origin) {
  if (std::visit([&](const auto& field) { return assign(settings, field, text); }, setting.field)) return;
  throw InputError("{} '{}': accepted is {}", origin, text, accepted(setting));
}

void reset(Settings& settings, const Setting& setting) {
  std::visit([&](const auto& field) { settings.*field.member = Settings{}.*field.member; }, setting.field);
}

}  // namespace nibble
