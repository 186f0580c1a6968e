#include "server/api/request_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/text/json.h"
#include "core/text/word_list.h"

namespace nibble::server {
namespace {

constexpr uint8_t kChat{1}, kCompletions{2}, kResponses{4}, kTokenize{8}, kAnthropic{16}, kOllama{32},
    kOllamaShow{64}, kDetokenize{128};
constexpr uint8_t kMessages{kChat | kResponses}, kAnswers{kMessages | kCompletions};

enum class Fate {
  kObeyed,
  kParts,    // an object; each member has a row of its own, such as "stream_options.include_usage"
  kIgnored,  // does not change the text
  kRefused,  // would change the text or the format of the answer
};

struct FieldRow {
  std::string_view names;  // names of fields that are treated the same way, separated by spaces
  uint8_t apis;
  Fate fate;
  // JSON values, separated by "|", that mean the same as an absent field: never refused and never reported.
  std::string_view neutral{};
  // Parts of the message of a refused field: "NAME must be ACCEPTED, not VALUE: REASON".
  std::string_view accepted{}, reason{};
};

constexpr std::string_view kNoSampler{"this sampler is not supported"};

constexpr FieldRow kFields[] = {
    // OpenAI
    {"model stream temperature top_p presence_penalty frequency_penalty logit_bias seed stop", kAnswers,
     Fate::kObeyed},
    {"n max_tokens", kAnswers, Fate::kObeyed},
    {"stream_options", kAnswers, Fate::kParts},
    {"stream_options.include_usage stream_options.continuous_usage_stats", kAnswers, Fate::kObeyed},
    {"stream_options.include_obfuscation", kAnswers, Fate::kIgnored, "false"},
    {"messages max_completion_tokens logprobs top_logprobs response_format", kChat, Fate::kObeyed},
    {"resumable", kChat, Fate::kObeyed},  // nibble's own
    {"reasoning_effort enable_thinking thinking think", kMessages, Fate::kObeyed},
    {"tools tool_choice parallel_tool_calls", kMessages, Fate::kObeyed},
    {"prompt echo logprobs best_of response_format", kCompletions, Fate::kObeyed},
    {"suffix", kCompletions, Fate::kRefused, "\"\"", "empty", "the model does not support infilling"},
    {"input instructions max_output_tokens previous_response_id store metadata include top_logprobs",
     kResponses, Fate::kObeyed},
    {"text", kResponses, Fate::kParts},
    {"text.format", kResponses, Fate::kObeyed},
    {"text.verbosity", kResponses, Fate::kIgnored, "\"medium\""},
    {"personality", kResponses, Fate::kIgnored},
    {"background truncation", kResponses, Fate::kObeyed},
    {"conversation prompt", kResponses, Fate::kRefused, "", "absent",
     "send the conversation in input or previous_response_id"},
    {"reasoning", kMessages, Fate::kParts},
    {"reasoning.effort", kMessages, Fate::kObeyed},
    {"reasoning.exclude", kChat, Fate::kObeyed},
    {"reasoning.enabled reasoning.max_tokens", kMessages, Fate::kObeyed},
    {"reasoning.summary reasoning.generate_summary reasoning.context reasoning.mode", kMessages,
     Fate::kIgnored},
    {"user safety_identifier prompt_cache_key prompt_cache_retention prompt_cache_options", kAnswers,
     Fate::kIgnored},
    {"service_tier", kAnswers, Fate::kIgnored, "\"auto\"|\"default\""},
    {"metadata verbosity", kChat, Fate::kIgnored, "{}|\"medium\""},
    {"store", kChat, Fate::kIgnored, "false"},
    {"prediction", kChat, Fate::kParts},
    {"prediction.type prediction.content", kChat, Fate::kObeyed},
    {"max_tool_calls client_metadata access_programs", kResponses, Fate::kIgnored},
    {"modalities", kChat, Fate::kRefused, "[\"text\"]", "[\"text\"]", "the model writes only text"},
    {"audio", kChat, Fate::kRefused, "", "absent", "the model has no audio"},
    {"web_search_options", kChat, Fate::kRefused, "", "absent",
     "web search is not built in; offer it as a function"},
    {"moderation", kAnswers, Fate::kRefused, "", "absent", "moderation is not supported"},
    {"image context_management", kResponses, Fate::kRefused, "", "absent", "it is not supported"},
    {"functions function_call", kChat, Fate::kObeyed},

    // Fields of vLLM; SGLang has most of them
    {"top_k min_p repetition_penalty ignore_eos stop_token_ids include_stop_str_in_output min_tokens "
     "bad_words",
     kAnswers, Fate::kObeyed},
    {"allowed_token_ids truncate_prompt_tokens truncation_side no_stop_trim", kAnswers, Fate::kObeyed},
    {"return_token_ids", kChat | kCompletions, Fate::kObeyed},
    {"return_token_ids", kResponses, Fate::kRefused, "false", "false", "output items have no token ids"},
    {"continue_final_message add_generation_prompt include_reasoning", kChat, Fate::kObeyed},
    {"chat_template_kwargs", kMessages, Fate::kParts},
    {"chat_template_kwargs.reasoning_effort chat_template_kwargs.enable_thinking "
     "chat_template_kwargs.thinking",
     kMessages, Fate::kObeyed},
    {"chat_template_kwargs.model_identity", kChat, Fate::kObeyed},
    {"chat_template_kwargs.builtin_tools", kMessages, Fate::kRefused, "[]", "empty",
     "there are no built-in tools; offer functions in tools"},
    {"prompt_logprobs", kChat | kCompletions, Fate::kObeyed},
    {"prompt_logprobs", kResponses, Fate::kRefused, "", "absent",
     "only /v1/completions and /v1/chat/completions return them"},
    {"add_special_tokens", kAnswers, Fate::kObeyed},  // no effect: the tokenizer adds no special tokens
    {"spaces_between_special_tokens", kAnswers, Fate::kObeyed},
    {"skip_special_tokens", kAnswers, Fate::kRefused, "true", "true", "control tokens have no text"},
    {"use_beam_search early_stopping", kAnswers, Fate::kRefused, "false", "false",
     "beam search is not supported"},
    {"length_penalty", kAnswers, Fate::kRefused, "1", "1", "beam search is not supported"},
    {"guided_json guided_regex guided_choice guided_grammar", kAnswers, Fate::kObeyed},
    {"structured_outputs", kAnswers, Fate::kParts},
    {"structured_outputs.json structured_outputs.regex structured_outputs.choice structured_outputs.grammar "
     "structured_outputs.json_object",
     kAnswers, Fate::kObeyed},
    {"structural_tag structured_outputs.structural_tag", kAnswers, Fate::kRefused, "", "absent",
     "use response_format and tools"},
    {"guided_whitespace_pattern structured_outputs.whitespace_pattern", kAnswers, Fate::kRefused, "\"\"",
     "absent", "the accepted white space is fixed (docs/structured-output.md)"},
    {"structured_outputs.disable_any_whitespace structured_outputs.disable_additional_properties", kAnswers,
     Fate::kRefused, "false", "false", "use strict to close objects; white space is always bounded"},
    {"guided_decoding_backend structured_outputs.backend structured_outputs.disable_fallback", kAnswers,
     Fate::kIgnored},
    {"chat_template", kChat, Fate::kRefused, "", "absent", "harmony is the model's only format"},
    {"documents", kChat, Fate::kRefused, "[]", "absent", "put documents into messages"},
    {"echo", kMessages, Fate::kRefused, "false", "false", "only /v1/completions repeats a prompt"},
    {"logits_processors logits_processor_args", kAnswers, Fate::kRefused, "[]", "absent",
     "the server does not run code of clients"},
    {"prompt_embeds", kAnswers, Fate::kRefused, "", "absent", "a prompt is text or token ids"},
    {"return_tokens_as_token_ids", kAnswers, Fate::kRefused, "false", "false", "use return_token_ids"},
    {"thinking_token_budget reasoning_budget thinking_budget", kMessages, Fate::kObeyed},
    {"thinking_token_budget reasoning_budget thinking_budget", kCompletions, Fate::kRefused, "-1", "absent",
     "completions do not separate reasoning; use /v1/chat/completions"},
    {"repetition_detection", kAnswers, Fate::kRefused, "", "absent", "it is not supported"},
    {"cache_salt priority", kAnswers | kAnthropic | kOllama, Fate::kObeyed},
    {"request_id kv_transfer_params vllm_xargs mm_processor_kwargs media_io_kwargs", kAnswers,
     Fate::kIgnored},
    {"data_parallel_rank", kAnswers, Fate::kIgnored},

    // SGLang
    {"regex ebnf", kAnswers, Fate::kObeyed},
    {"stop_regex", kAnswers, Fate::kRefused, "[]", "absent", "use stop, which accepts strings"},
    {"separate_reasoning stream_reasoning", kAnswers, Fate::kRefused, "true", "true",
     "use include_reasoning to control whether it is sent"},
    {"lora_path", kAnswers, Fate::kRefused, "", "absent", "choose an adapter of --lora-modules by `model`"},
    {"custom_logit_processor custom_params session_params", kAnswers, Fate::kRefused, "", "absent",
     "it is not supported"},
    {"return_hidden_states return_routed_experts", kAnswers, Fate::kRefused, "false", "false",
     "it is not supported"},
    {"rid", kAnswers, Fate::kIgnored},

    // llama-server
    {"n_predict n_probs", kAnswers, Fate::kRefused, "-1|0", "absent", "use max_tokens and logprobs"},
    {"grammar json_schema", kAnswers, Fate::kObeyed},
    {"typical_p tfs_z", kAnswers, Fate::kRefused, "1", "1", kNoSampler},
    {"mirostat dynatemp_range xtc_probability dry_multiplier top_a", kAnswers, Fate::kRefused, "0", "0",
     kNoSampler},
    {"top_n_sigma", kAnswers, Fate::kRefused, "-1|0", "-1 or 0", kNoSampler},
    {"samplers sampler_seq", kAnswers, Fate::kRefused, "", "absent", "the order of the samplers is fixed"},
    {"repeat_penalty", kAnswers, Fate::kRefused, "1", "1",
     "use repetition_penalty, which counts prompt and answer"},
    {"min_keep n_indent n_keep", kAnswers, Fate::kRefused, "0", "0", "it is not supported"},
    {"t_max_predict_ms", kAnswers, Fate::kRefused, "0|-1", "absent", "use max_tokens"},
    {"reasoning_format", kAnswers, Fate::kRefused, "\"auto\"|\"deepseek\"|\"deepseek-legacy\"", "auto",
     "reasoning is always a separate field"},
    {"thinking_forced_open", kAnswers, Fate::kRefused, "false", "false",
     "the model starts its reasoning itself"},
    {"parse_tool_calls", kAnswers, Fate::kRefused, "true", "true", "tool calls are always parsed"},
    {"post_sampling_probs", kAnswers, Fate::kRefused, "false", "false",
     "log-probabilities are always the model's own"},
    // These have no effect unless one of the samplers refused above is on
    {"mirostat_tau mirostat_eta dynatemp_exponent xtc_threshold dry_base dry_allowed_length "
     "dry_penalty_last_n",
     kAnswers, Fate::kIgnored},
    {"dry_sequence_breakers repeat_last_n cache_prompt id_slot timings_per_token return_tokens", kAnswers,
     Fate::kIgnored},
    {"return_progress", kChat, Fate::kObeyed},
    {"return_progress", kCompletions | kResponses, Fate::kIgnored},

    // Anthropic; clients may use nibble's sampling parameters too
    {"model max_tokens messages system stop_sequences stream temperature top_p top_k tools tool_choice",
     kAnthropic, Fate::kObeyed},
    {"min_p repetition_penalty presence_penalty frequency_penalty logit_bias seed ignore_eos min_tokens",
     kAnthropic, Fate::kObeyed},
    {"thinking output_config", kAnthropic, Fate::kParts},
    {"thinking.type thinking.budget_tokens output_config.effort", kAnthropic, Fate::kObeyed},
    {"thinking.display", kAnthropic, Fate::kIgnored},
    {"output_config.format output_format", kAnthropic, Fate::kObeyed},
    {"compaction", kAnthropic, Fate::kRefused, "", "absent", "ask the model for a summary in messages"},
    {"thread", kAnthropic, Fate::kRefused, "", "absent", "no conversations are stored; send all messages"},
    {"mcp_servers", kAnthropic, Fate::kRefused, "[]", "absent", "the client must call tools itself"},
    {"metadata cache_control service_tier container context_management speed inference_geo diagnostics betas",
     kAnthropic, Fate::kIgnored},

    // Ollama
    {"model messages prompt system tools think stream logprobs top_logprobs raw name verbose", kOllama,
     Fate::kObeyed},
    {"keep_alive", kOllama, Fate::kIgnored},
    {"format", kOllama, Fate::kObeyed},
    {"suffix template", kOllama, Fate::kRefused, "\"\"", "empty", "harmony is the model's only format"},
    {"images", kOllama, Fate::kRefused, "[]", "empty", "the model reads only text"},
    {"context", kOllama, Fate::kRefused, "[]", "absent", "use /api/chat for conversations"},
    {"truncate shift", kOllama, Fate::kIgnored, "false"},  // nibble refuses a prompt that is too long
    {"options", kOllama, Fate::kParts},
    {"options.temperature options.top_k options.top_p options.min_p options.seed options.stop "
     "options.num_predict",
     kOllama, Fate::kObeyed},
    {"options.presence_penalty options.frequency_penalty options.repeat_penalty options.repeat_last_n",
     kOllama, Fate::kObeyed},
    {"options.typical_p options.tfs_z", kOllama, Fate::kRefused, "1", "1", kNoSampler},
    {"options.mirostat", kOllama, Fate::kRefused, "0", "0", kNoSampler},
    {"options.penalize_newline", kOllama, Fate::kRefused, "true", "true", "it counts like any other token"},
    {"options.mirostat_tau options.mirostat_eta options.num_ctx options.num_keep options.num_batch "
     "options.num_gpu",
     kOllama, Fate::kIgnored},
    {"options.main_gpu options.num_thread options.use_mmap options.use_mlock options.low_vram options.numa",
     kOllama, Fate::kIgnored},

    {"model name", kOllamaShow, Fate::kObeyed},
    {"verbose", kOllamaShow, Fate::kIgnored, "false"},

    {"model tokens", kDetokenize, Fate::kObeyed},
    {"model prompt content parse_special add_special_tokens return_token_strs", kTokenize, Fate::kObeyed},
    {"with_pieces", kTokenize, Fate::kRefused, "false", "false", "use return_token_strs"},
    {"add_special", kTokenize, Fate::kObeyed},  // no effect: the tokenizer adds no special tokens
};

const FieldRow* row_of(Api api, std::string_view name) {
  const auto found = std::ranges::find_if(kFields, [&](const FieldRow& row) {
    return (row.apis & static_cast<uint8_t>(api)) != 0 && has_word(row.names, name);
  });
  return found == std::end(kFields) ? nullptr : &*found;
}

bool is_neutral(const FieldRow& row, const Json& value) {
  std::string_view rest = row.neutral;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('|'), rest.size());
    if (value == Json::parse(rest.substr(0, end))) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

void check(Api api, const Field& object, const std::string& before, IgnoredFields& ignored) {
  constexpr size_t kMaxFields{256};  // limit on fields, because each one costs a search of the table
  if (!object.value().is_object()) object.refuse("an object");
  if (object.value().size() > kMaxFields)
    object.refuse(fmt::format("an object of at most {} fields", kMaxFields));
  for (const auto& [key, value] : object.value().items()) {
    if (value.is_null()) continue;
    const Field member(value, fmt::format("{}.{}", object.place(), key));
    const std::string name = before + key;
    const FieldRow* row = key.find('.') == std::string::npos ? row_of(api, name) : nullptr;
    if (!row) {
      ignored.add(name);
    } else if (row->fate == Fate::kParts) {
      check(api, member, name + ".", ignored);
    } else if (row->fate != Fate::kObeyed && !is_neutral(*row, member.value())) {
      if (row->fate == Fate::kRefused) member.refuse(row->accepted, row->reason);
      ignored.add(name);
    }
  }
}

// Nested members ignored without notice: parts of earlier answers, hints for caches and for streaming.
constexpr std::string_view kHarmless{
    "id object created status index annotations citations logprobs cache_control signature parsed "
    "parsed_arguments caller created_by eager_input_streaming"};

void note_unread(const Json& value, const std::string& name, const harmony::ReadRecord& record,
                 IgnoredFields& ignored) {
  if (value.is_array()) {
    for (const Json& element : value)
      if (element.is_structured()) note_unread(element, name + "[]", record, ignored);
  } else if (value.is_object() && record.has_looked_into(value)) {
    for (const auto& [key, member] : value.items()) {
      if (member.is_null()) continue;
      if (record.has_read(member))
        note_unread(member, name + "." + key, record, ignored);
      else if (!has_word(kHarmless, key))
        ignored.add(name + "." + key);
    }
  }
}

void note_unread(Api api, const Json& object, const std::string& before, const harmony::ReadRecord& record,
                 IgnoredFields& ignored) {
  for (const auto& [key, member] : object.items()) {
    const FieldRow* row = row_of(api, before + key);
    if (!row || member.is_null()) continue;
    if (row->fate == Fate::kParts)
      note_unread(api, member, before + key + ".", record, ignored);
    else if (row->fate == Fate::kObeyed)
      note_unread(member, before + key, record, ignored);
  }
}

}  // namespace

void IgnoredFields::add(std::string_view name, std::string_view instead) {
  constexpr size_t kMaxNames{16}, kMaxLetters{64}, kMaxInstead{160};
  std::string plain(name.substr(0, kMaxLetters));
  std::ranges::replace_if(
      plain,
      [](char letter) {
        const bool is_word = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                             (letter >= '0' && letter <= '9');
        return !is_word && std::string_view("_-.[]").find(letter) == std::string_view::npos;
      },
      '?');
  std::string told(instead.substr(0, kMaxInstead));
  std::ranges::replace_if(
      told, [](char letter) { return letter < ' ' || letter > '~'; }, '?');
  std::string text = told.empty() ? plain : fmt::format("{} ({})", plain, told);
  if (std::ranges::find(texts_, text) != texts_.end()) return;
  if (names_.size() == kMaxNames) {
    more_.insert(std::move(text));
    return;
  }
  texts_.push_back(std::move(text));
  names_.push_back(std::move(plain));
}

std::string IgnoredFields::text() const {
  std::string text = fmt::format("{}", fmt::join(texts_, ", "));
  if (!more_.empty()) text += fmt::format(", and {} more", more_.size());
  return text;
}

void check_fields(Api api, const Field& request, IgnoredFields& ignored) { check(api, request, "", ignored); }

void note_unread(Api api, const Field& request, const harmony::ReadRecord& record, IgnoredFields& ignored) {
  for (const std::string& name : record.left_out()) ignored.add(name, "left out");
  note_unread(api, request.value(), "", record, ignored);
}

}  // namespace nibble::server
