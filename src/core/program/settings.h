// One table defines the flags, the NIBBLE_* variables and --help. A new setting is a member of Settings,
// whose initial value is the default, and a row of the table in settings.cpp. Commands that run a model
// convert the texts and numbers of Settings to typed values with setup/start/resolve.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace nibble {

struct Settings {
  // kInstruction and kDate (see SettingGroup): what the model reads in addition to the prompt.
  std::string reasoning{"medium"};
  std::optional<std::string> system;
  std::optional<std::string> date;
  // kSampling: the defaults sample from the model's own distribution, as OpenAI recommends for gpt-oss.
  double temperature{1};
  int top_k{0};
  double top_p{1};
  double min_p{0};
  double repetition_penalty{1};
  double presence_penalty{0};
  double frequency_penalty{0};
  // kAnswer: seed, end and grammar of an answer.
  std::optional<uint64_t> seed;
  std::optional<int> max_tokens, reasoning_budget;
  std::vector<std::string> stop;
  std::optional<std::string> json_schema, grammar;  // paths of files
  std::optional<int> logprobs;                      // kDetail: alternatives reported per token
  // kMachine, kBatch, kCache: backend, number formats, memory.
  std::optional<std::string> backend;
  std::optional<int> threads;
  std::optional<std::string> isa;
  std::optional<std::string> tuning;
  bool no_mmap{false};
  std::vector<std::string> lora;
  std::optional<std::string> experts;
  std::optional<std::string> mxfp4_layers;
  std::optional<std::string> fp8_layers;
  std::optional<std::string> kv_dtype;  // not set: bf16
  std::string draft_head_dtype{"mxfp4"};
  std::optional<std::string> experts_activations;
  std::optional<std::string> prompt_activations;
  std::optional<std::string> require;
  bool jit{true};
  bool graphs{true};
  std::optional<int> context;
  std::optional<int> max_batch_tokens;
  std::optional<int> max_sequences;
  std::optional<double> itl_target{};  // milliseconds; 0: no target
  std::optional<double>
      gpu_memory_utilization;  // not set: depends on the kind of memory (setup/plan/memory.h)
  bool prefix_cache{true};
  // kDrafts: speculative decoding.
  std::optional<std::string> speculate;
  std::optional<std::string> speculative_config;
  // kDevice: treat the GPU as a smaller one.
  std::optional<std::string> shared_budget;
  std::optional<int> multiprocessors;
  // kGpus: which GPUs share the model.
  std::optional<int> tensor_parallel_size;
  std::optional<std::string> gpus;
  std::optional<std::string> tensor_split;
  std::optional<std::string> nccl;
  bool data_parallel_attention{false};
  // kNodes: which machines share the model.
  std::optional<int> nodes;
  std::optional<int> node_rank;
  std::optional<std::string> head;
  std::optional<std::string> secret_file;
  bool expert_parallel{false};
  // kPlaces: file locations and logging.
  std::optional<std::string> models;     // folder of the bundled models
  std::optional<std::string> tokenizer;  // a vocabulary file instead of the model's own
  std::string log_level{"warn"};
  std::string log_format{"text"};
  std::optional<std::string> history;  // kChat: file of entered lines
  // Not a flag: version and commit of this program, set by main().
  std::string build;
};

enum class SettingGroup {  // groups of flags; a command lists the groups that it accepts
  kInstruction,
  kDate,
  kSampling,
  kAnswer,
  kDetail,
  kMachine,
  kBatch,
  kCache,
  kDrafts,
  kDevice,
  kGpus,
  kNodes,
  kPlaces,
  kChat
};

template <typename Member>  // Member: int, double, or an optional of int, double or uint64_t
struct NumberField {
  Member Settings::*member;
  double least, most;
  bool is_above_least{false};  // `least` itself is refused
};
template <typename Member>  // Member: std::string or an optional of it
struct ChoiceField {
  Member Settings::*member;
  std::string_view accepted[12];  // accepted values; unused entries are empty
};
struct SwitchField {  // on or off; a flag without a value (Setting::value) turns it on
  bool Settings::*member;
  static constexpr std::string_view accepted[]{"on", "off"};
};
struct TextField {
  std::optional<std::string> Settings::*member;
};
struct DateField {
  std::optional<std::string> Settings::*member;
};
struct TextListField {  // each use of the flag appends one text
  std::vector<std::string> Settings::*member;
};

struct Setting {
  std::string_view name;  // "top-k": the flag --top-k, the variable NIBBLE_TOP_K
  SettingGroup group;
  std::string_view value;  // name of the value in --help: "N"; empty for a flag without a value
  std::string_view help;
  std::string_view unset;  // text of --help for an optional setting that is not set; else empty
  std::variant<NumberField<int>, NumberField<double>, NumberField<std::optional<int>>,
               NumberField<std::optional<double>>, NumberField<std::optional<uint64_t>>,
               ChoiceField<std::string>, ChoiceField<std::optional<std::string>>, SwitchField, TextField,
               DateField, TextListField>
      field;
  std::string_view also{};    // a second name of the flag, as in vLLM
  std::string_view letter{};  // a one-letter name of the flag, as in llama.cpp
  std::string_view off{};     // the name of a flag without a value that sets "off"
};

std::span<const Setting> setting_table();

std::string flag(const Setting& setting);      // "--top-k"
std::string variable(const Setting& setting);  // "NIBBLE_TOP_K"
std::vector<std::string_view> choices_of(
    const Setting& setting);                   // accepted values of a ChoiceField or SwitchField; else empty
std::string accepted(const Setting& setting);  // "a whole number from 0 to 1000"
std::string default_of(const Setting& setting);
std::string value_of(const Settings& settings, const Setting& setting);  // formatted like default_of()

// Sets a member from `text`. Throws an InputError that lists accepted values; `origin`: the flag or variable.
void set(Settings& settings, const Setting& setting, std::string_view text, std::string_view origin);

void reset(Settings& settings, const Setting& setting);  // sets the default

}  // namespace nibble
