#include "core/program/settings.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <type_traits>

#include "core/errors/error.h"

namespace nibble {
namespace {

using enum SettingGroup;
using S = Settings;

// Upper bounds reject typing errors, and keep the product of any two settings within an int.
constexpr Setting kTable[] = {
    {"reasoning", kInstruction, "LEVEL", "how much the model reasons: low, medium, high", "",
     ChoiceField<std::string>{&S::reasoning, {"low", "medium", "high"}}},
    {"system", kInstruction, "TEXT", "instructions to the model (harmony's developer message)", "none",
     TextField{&S::system}},
    {"date", kDate, "DATE", "current date in the model's prompt, such as 2025-06-28", "today",
     DateField{&S::date}},

    {"temperature", kSampling, "X",
     "sampling temperature; 0: always the likeliest token, 1: the model's own distribution", "",
     NumberField<double>{&S::temperature, 0, 2}},
    {"top-k", kSampling, "N", "sample only from the N likeliest tokens; 0: from all", "",
     NumberField<int>{&S::top_k, 0, 1 << 20}},
    {"top-p", kSampling, "X", "sample only from the likeliest tokens whose probabilities add up to X", "",
     NumberField<double>{&S::top_p, 0, 1, true}},
    {"min-p", kSampling, "X", "drop tokens less likely than X times the likeliest", "",
     NumberField<double>{&S::min_p, 0, 1}},
    {"repetition-penalty", kSampling, "X",
     "penalise tokens that are in the prompt or the answer by the factor X; 1: off", "",
     NumberField<double>{&S::repetition_penalty, 0.01, 100}},
    {"presence-penalty", kSampling, "X",
     "subtracted from the logits of tokens that are already in the answer", "",
     NumberField<double>{&S::presence_penalty, -2, 2}},
    {"frequency-penalty", kSampling, "X", "the same, multiplied by how often the token is in the answer", "",
     NumberField<double>{&S::frequency_penalty, -2, 2}},
    {"seed", kAnswer, "N", "seed of the sampler: the same seed gives the same text", "random",
     NumberField<std::optional<uint64_t>>{&S::seed, 0, 0x1p64}},
    {"max-tokens", kAnswer, "N", "end the answer after N tokens, reasoning included",
     "up to the context length", NumberField<std::optional<int>>{&S::max_tokens, 1, 1 << 20}, "", "n"},
    {"reasoning-budget", kAnswer, "N", "end the reasoning after N tokens; 0: no reasoning, -1: no limit",
     "no limit", NumberField<std::optional<int>>{&S::reasoning_budget, -1, 1 << 20}},
    {"stop", kAnswer, "TEXT", "end the answer before TEXT; may be given several times", "none",
     TextListField{&S::stop}},
    {"json-schema", kAnswer, "FILE", "constrain the answer to the JSON schema in FILE", "none",
     TextField{&S::json_schema}},
    {"grammar", kAnswer, "FILE", "constrain the answer to the grammar (GBNF) in FILE", "none",
     TextField{&S::grammar}},
    {"logprobs", kDetail, "N",
     "with --json: log probabilities of each token and of the N likeliest alternatives", "none",
     NumberField<std::optional<int>>{&S::logprobs, 0, 20}},

    {"backend", kMachine, "NAME", "backend: cuda, cpu, or reference (slow)", "the best one",
     TextField{&S::backend}},
    {"threads", kMachine, "N", "number of CPU threads", "all cores",
     NumberField<std::optional<int>>{&S::threads, 1, 1024}, "", "t"},
    {"isa", kMachine, "NAME", "CPU instruction set; --version lists those of this machine", "the best one",
     ChoiceField<std::optional<std::string>>{&S::isa,
                                             {"portable", "avx2", "avx_vnni", "avx512", "avx512_vnni", "amx",
                                              "neon", "neon_dotprod", "neon_i8mm"}}},
    {"tuning", kMachine, "FILE", "results of 'nibble tune' for this CPU or GPU; off: ignore them",
     "~/.cache/nibble/tuning.json, if present", TextField{&S::tuning}},
    {"no-mmap", kMachine, "", "read the model's files into memory instead of mapping them", "",
     SwitchField{&S::no_mmap}},
    {"lora", kMachine, "FILE[:SCALE]",
     "merge a LoRA adapter (of PEFT, or GGUF) into the model at load, SCALE times; may be given several "
     "times",
     "none", TextListField{&S::lora}},
    {"experts", kMachine, "NAME", "convert the experts at load: mxfp4, fp8, q8_0, bf16",
     "as in the file; MXFP4 if that is exact",
     ChoiceField<std::optional<std::string>>{&S::experts, {"mxfp4", "fp8", "q8_0", "bf16"}}},
    {"mxfp4-layers", kMachine, "LIST", "quantise to MXFP4 at load: moe, qkv, o, lm_head, or all",
     "as in the checkpoint", TextField{&S::mxfp4_layers}},
    {"fp8-layers", kMachine, "LIST", "quantise to FP8 (E4M3) at load: qkv, o, lm_head, or all",
     "as in the checkpoint", TextField{&S::fp8_layers}},
    {"kv-dtype", kMachine, "NAME", "format of the KV cache: bf16, fp8 (E4M3)", "bf16",
     ChoiceField<std::optional<std::string>>{&S::kv_dtype, {"bf16", "fp8"}}},
    {"experts-activations", kMachine, "NAME",
     "format of the experts' activations on a CPU: int8 (one scale per 32 values), float",
     "int8; float with --isa portable",
     ChoiceField<std::optional<std::string>>{&S::experts_activations, {"int8", "float"}}},
    {"prompt-activations", kMachine, "NAME",
     "activations of MXFP4 weights in prefill on a GPU: bf16, mxfp8x2 (as exact as bf16), mxfp8, mxfp4",
     "bf16, as in decode",
     ChoiceField<std::optional<std::string>>{&S::prompt_activations, {"bf16", "mxfp8x2", "mxfp8", "mxfp4"}}},
    {"require", kMachine, "LIST",
     "refuse to start unless operations run in these formats: experts=mxfp4/bf16,qkv=bf16", "nothing",
     TextField{&S::require}},
    {"jit", kMachine, "WHETHER",
     "let the driver compile PTX if nibble has no machine code for the GPU: on, off", "",
     SwitchField{&S::jit}},
    {"graphs", kMachine, "WHETHER", "run decode steps on a GPU as CUDA graphs: on, off", "",
     SwitchField{&S::graphs}, "", "", "no-graphs"},
    {"context", kMachine, "N", "maximum number of tokens of prompt and answer together",
     "32768, or the model's maximum if less", NumberField<std::optional<int>>{&S::context, 1, 1 << 20},
     "max-model-len", "c"},
    {"max-batch-tokens", kMachine, "N", "maximum number of tokens per step",
     "8192 on a GPU with at least 64 GB, but 4096 on a GB10; 2048 on a smaller GPU; 512 on a CPU",
     NumberField<std::optional<int>>{&S::max_batch_tokens, 1, 1 << 16}, "max-num-batched-tokens"},
    {"max-sequences", kBatch, "N", "maximum number of concurrent sequences",
     "256 on a GPU with at least 64 GB, 64 on others, 16 on a CPU",
     NumberField<std::optional<int>>{&S::max_sequences, 1, 1024}, "max-num-seqs"},
    {"itl-target", kBatch, "MS",
     "limit the prompt rows of a step with running answers so that it takes MS milliseconds; 0: no limit",
     "on a GPU 2048 rows, 4096 on a GB10; on a CPU 0",
     NumberField<std::optional<double>>{&S::itl_target, 0, 60000}},
    {"gpu-memory-utilization", kBatch, "X", "fraction of a GPU's memory for weights and KV cache",
     "0.9; 0.7 if it is the host's memory",
     NumberField<std::optional<double>>{&S::gpu_memory_utilization, 0, 1, true}},
    {"prefix-cache", kCache, "WHETHER", "reuse the KV cache of common prompt prefixes: on, off", "",
     SwitchField{&S::prefix_cache}},
    {"speculate", kDrafts, "HOW",
     "speculative decoding; does not change the text: auto (when it is faster), ngram, suffix, eagle3=FOLDER "
     "(auto with an EAGLE-3 head), model=MODEL (auto with a draft model), off",
     "auto", TextField{&S::speculate}},
    {"speculative-config", kDrafts, "JSON",
     "the same in vLLM's form: '{\"method\": \"ngram\", \"num_speculative_tokens\": 5}'; with \"topk\": K, "
     "drafts are trees with up to K tokens per position",
     "none", TextField{&S::speculative_config}},
    {"draft-head-dtype", kDrafts, "NAME",
     "format of the matrices of a draft head: mxfp4, or bf16 as in its file", "",
     ChoiceField<std::string>{&S::draft_head_dtype, {"mxfp4", "bf16"}}},

    {"shared-budget", kDevice, "KB",
     "run the kernels for a GPU with KB kilobytes of shared memory per CTA: 99, 163, 227",
     "the maximum of this GPU",
     ChoiceField<std::optional<std::string>>{&S::shared_budget, {"99", "163", "227"}}},
    {"multiprocessors", kDevice, "N", "size kernel launches for a GPU with N multiprocessors", "all",
     NumberField<std::optional<int>>{&S::multiprocessors, 1, 1024}},

    {"tensor-parallel-size", kGpus, "N", "split every layer across N GPUs; also -tp",
     "1, or the number of --gpus", NumberField<std::optional<int>>{&S::tensor_parallel_size, 1, 64}, "tp"},
    {"gpus", kGpus, "LIST", "run on these GPUs: 0,2,3", "the first ones", TextField{&S::gpus}},
    {"tensor-split", kGpus, "LIST", "relative share of the model per GPU: 3,1", "equal shares",
     TextField{&S::tensor_split}},
    {"nccl", kGpus, "FILE",
     "use NCCL, from this library, for all-reduces; nodes, and GPUs without peer access, always use it",
     "libnccl.so.2, if needed", TextField{&S::nccl}},
    {"expert-parallel", kGpus, "",
     "place whole experts on each GPU (or machine, with --nodes) instead of a part of every expert", "",
     SwitchField{&S::expert_parallel}},
    {"data-parallel-attention", kGpus, "",
     "split attention and KV cache across GPUs by sequence instead of by head", "",
     SwitchField{&S::data_parallel_attention}},

    {"nodes", kNodes, "N", "split every layer across N machines, on their CPUs or one GPU each",
     "only this machine", NumberField<std::optional<int>>{&S::nodes, 2, 8}},
    {"node-rank", kNodes, "R", "rank of this machine: 0 is the head, which serves the answers", "none",
     NumberField<std::optional<int>>{&S::node_rank, 0, 7}},
    {"head", kNodes, "ADDRESS:PORT", "address on which node 0 listens for the other nodes", "none",
     TextField{&S::head}},
    {"secret-file", kNodes, "FILE", "secret shared by all nodes", "the variable NIBBLE_SECRET",
     TextField{&S::secret_file}},

    {"models", kPlaces, "DIR", "folder of the bundled models", "next to the program", TextField{&S::models}},
    {"tokenizer", kPlaces, "FILE", "tokenizer.json or .tiktoken file; bytes: one token per byte",
     "the model's own", TextField{&S::tokenizer}},
    {"log-level", kPlaces, "LEVEL", "log level on stderr: debug, info, warn, error, off", "",
     ChoiceField<std::string>{&S::log_level, {"debug", "info", "warn", "error", "off"}}},
    {"log-format", kPlaces, "NAME", "log format: text, or json (one object per line)", "",
     ChoiceField<std::string>{&S::log_format, {"text", "json"}}},
    {"history", kChat, "FILE", "file for the history of typed lines; off: none",
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

// Parses `text` and stores the value in the setting's member. Returns false if `text` is not accepted.
template <typename Member>
bool assign(Settings& settings, const NumberField<Member>& field, std::string_view text) {
  const auto value = parse_number<typename Unwrapped<Member>::type>(text);
  // Text that is not a number counts as NaN. The comparisons are written so that NaN is refused.
  const double number = value ? static_cast<double>(*value) : NAN;
  if (!(number >= field.least && number <= field.most)) return false;
  // Compare as float, the sampler's type: a double just above `least` could equal `least` as a float.
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
  if constexpr (std::is_same_v<T, uint64_t>)  // field.most, a double, can't hold UINT64_MAX
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
std::string describe(const DateField&) { return "a date such as 2025-06-28"; }
std::string describe(const TextListField&) { return "any text that is not empty"; }

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
  throw InputError("{} '{}': expected {}", origin, text, accepted(setting));
}

void reset(Settings& settings, const Setting& setting) {
  std::visit([&](const auto& field) { settings.*field.member = Settings{}.*field.member; }, setting.field);
}

}  // namespace nibble
