#include "server/api/request.h"

#include <fmt/format.h>

#include <charconv>
#include <climits>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "harmony/json_text.h"

namespace nibble::server {
namespace {

using harmony::Field;
using harmony::Json;

double number(const Field& field, double least, double most) {
  const auto refuse = [&] { field.refuse(fmt::format("a number from {} to {}", least, most)); };
  if (!field.value().is_number()) refuse();
  const auto value = field.value().get<double>();
  if (!(value >= least && value <= most)) refuse();
  return value;
}

void read(const Field& request, const char* key, double least, double most, float& value) {
  if (const auto field = request.find(key)) value = static_cast<float>(number(*field, least, most));
}

// Refuses parameters that would change the answer and are not implemented; the value that changes nothing is accepted.
void refuse_what_is_not_built(const Field& request) {
  if (const auto format = request.find("response_format"))
    if (const auto type = format->need("type", "\"text\""); type.value() != "text")
      type.refuse("\"text\": constrained output is not available");
  if (const auto suffix = request.find("suffix"); suffix && suffix->value() != "")
    suffix->refuse("empty: the model does not fill in");
  for (const char* key : {"functions", "function_call"})
    if (const auto field = request.find(key)) field->refuse("absent: use tools and tool_choice");
}

std::vector<std::string> read_stop(const Field& request) {
  const auto field = request.find("stop");
  if (!field) return {};
  if (field->value().is_string() && !field->string().empty()) return {field->string()};
  constexpr size_t kMaxBytes{1024};
  const auto accepted =
      fmt::format("a text or a list of at most {} texts, none of them empty or longer than {} bytes",
                  kMaxStopStrings, kMaxBytes);
  if (!field->value().is_array() || field->value().size() > kMaxStopStrings) field->refuse(accepted);
  std::vector<std::string> stop;
  for (const Field& element : field->elements()) {
    if (!element.value().is_string() || element.string().empty() || element.string().size() > kMaxBytes)
      field->refuse(accepted);
    stop.push_back(element.string());
  }
  return stop;
}

std::vector<std::pair<TokenId, float>> read_logit_bias(const Field& request) {
  std::vector<std::pair<TokenId, float>> biases;
  const auto field = request.find("logit_bias");
  if (!field) return biases;
  if (!field->value().is_object()) field->refuse("an object from token ids to biases");
  for (const auto& [key, bias] : field->value().items()) {
    TokenId token{};
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc{} || end != key.data() + key.size() || token < 0)
      field->refuse("an object from token ids to biases");
    biases.emplace_back(token, static_cast<float>(number(Field(bias, field->place() + "." + key),
                                                         -double{kMaxLogitBias}, double{kMaxLogitBias})));
  }
  return biases;
}

std::vector<TokenId> read_tokens(const Field& field, std::string_view accepted) {
  std::vector<TokenId> tokens;
  if (!field.value().is_array()) field.refuse(accepted);
  for (const Json& element : field.value()) {
    if (!element.is_number_integer() || element < 0 || element > INT32_MAX) field.refuse(accepted);
    tokens.push_back(element.get<TokenId>());
  }
  return tokens;
}

Prompt read_prompt(const Field& field) {
  if (field.value().is_string()) return field.string();
  return read_tokens(field, "a text or a list of token ids");
}

// A text, a list of token ids, or a list of these.
std::vector<Prompt> read_prompts(const Field& field) {
  const Json& value = field.value();
  if (!value.is_array()) {
    if (!value.is_string()) field.refuse("a text, a list of token ids, or a list of these");
    return {field.string()};
  }
  if (value.empty()) field.refuse("a text or a list of token ids, not empty");
  if (value.front().is_number()) return {read_prompt(field)};
  std::vector<Prompt> prompts;
  for (const Field& element : field.elements()) prompts.push_back(read_prompt(element));
  return prompts;
}

}  // namespace

// Accepts 3.0 as 3: JSON does not distinguish them.
int64_t whole(const Field& field, int64_t least, int64_t most) {
  const auto refuse = [&] { field.refuse(fmt::format("a whole number from {} to {}", least, most)); };
  if (!field.value().is_number()) refuse();
  const auto value = field.value().get<double>();
  if (!(value >= static_cast<double>(least) && value <= static_cast<double>(most)) ||
      value != std::floor(value))
    refuse();
  return static_cast<int64_t>(value);
}

bool read_boolean(const Field& request, const char* key) {
  const auto field = request.find(key);
  return field && field->boolean();
}

GenerationParams read_params(const Field& request) {
  refuse_what_is_not_built(request);
  GenerationParams params;
  params.model = request.find_string("model");
  if (const auto n = request.find("n")) params.num_choices = static_cast<int>(whole(*n, 1, kMaxChoices));
  if (const auto best_of = request.find("best_of"); best_of && best_of->value() != params.num_choices)
    best_of->refuse("n: what is generated is answered");
  SampleParams& sample = params.sample;
  read(request, "temperature", 0, 2, sample.temperature);
  read(request, "min_p", 0, 1, sample.min_p);
  read(request, "repetition_penalty", 0.01, 100, sample.repetition_penalty);
  read(request, "presence_penalty", -double{kMaxPenalty}, double{kMaxPenalty}, sample.presence_penalty);
  read(request, "frequency_penalty", -double{kMaxPenalty}, double{kMaxPenalty}, sample.frequency_penalty);
  read(request, "top_p", 0, 1, sample.top_p);
  if (!(sample.top_p > 0)) request.find("top_p")->refuse("above 0 and at most 1");
  if (const auto top_k = request.find("top_k"))  // -1 is how vLLM's clients say "all"
    sample.top_k = static_cast<int>(std::max<int64_t>(0, whole(*top_k, -1, 1 << 20)));
  if (const auto seed = request.find("seed")) {
    params.has_seed = true;
    if (!seed->value().is_number_integer()) seed->refuse("a whole number of at most 64 bits");
    sample.seed = seed->value().is_number_unsigned() ? seed->value().get<uint64_t>()
                                                     : static_cast<uint64_t>(seed->value().get<int64_t>());
  }
  sample.logit_bias = read_logit_bias(request);
  if (const auto max_tokens = request.find("max_tokens"))
    params.max_tokens = static_cast<int>(whole(*max_tokens, 1, INT_MAX));
  params.stop = read_stop(request);
  params.ignore_eos = read_boolean(request, "ignore_eos");
  params.stream = read_boolean(request, "stream");
  if (const auto options = request.find("stream_options")) {
    if (!params.stream) options->refuse("absent where stream is not true");
    params.include_usage = read_boolean(*options, "include_usage");
  }
  return params;
}

bool offers_tools(const Field& request) {
  const auto choice = request.find("tool_choice");
  if (!choice || choice->value() == "auto") return true;
  if (choice->value() != "none") choice->refuse("\"auto\" or \"none\": a call can't be forced");
  return false;
}

namespace {

ChatRequest read_chat(Json& json) {
  const Field request(json, "request");
  ChatRequest read;
  read.params = read_params(request);
  if (const auto max_tokens = request.find("max_completion_tokens"))  // the newer name wins
    read.params.max_tokens = static_cast<int>(whole(*max_tokens, 1, INT_MAX));
  const auto top = request.find("top_logprobs");
  if (read_boolean(request, "logprobs"))
    read.params.sample.num_logprobs = top ? static_cast<int>(whole(*top, 0, kMaxLogprobs)) : 0;
  else if (top && top->value() != 0)
    top->refuse("absent or 0 where logprobs is not true");
  const bool with_tools = offers_tools(request);
  if (const auto messages = request.find("messages");
      messages && messages->value().is_array() && messages->value().empty())
    messages->refuse("a list of at least one message");
  // Passes on only what OpenAI's API has: chat_from_json also reads a date and the model's identity.
  Json chat = Json::object();
  for (const char* key : {"messages", "tools", "reasoning_effort"})
    if (const auto found = json.find(key); found != json.end()) chat[key] = std::move(*found);
  read.chat = harmony::chat_from_json(chat);
  if (!with_tools) read.chat.tools.clear();
  return read;
}

}  // namespace

ChatRequest read_chat_request(std::string_view body) {
  Json json = harmony::parse_json(body, "the body");
  return read_chat(json);
}

CompletionRequest read_completion_request(std::string_view body) {
  const Json json = harmony::parse_json(body, "the body");
  const Field request(json, "request");
  CompletionRequest read;
  read.params = read_params(request);
  if (!read.params.max_tokens) read.params.max_tokens = kDefaultCompletionTokens;
  read.prompts = read_prompts(request.need("prompt", "a text or a list of token ids"));
  read.echo = read_boolean(request, "echo");
  if (const auto logprobs = request.find("logprobs")) {
    if (read.echo) logprobs->refuse("absent with echo: those of the prompt are not available");
    read.params.sample.num_logprobs = static_cast<int>(whole(*logprobs, 0, kMaxLogprobs));
  }
  return read;
}

TokenizeRequest read_tokenize_request(std::string_view body) {
  Json json = harmony::parse_json(body, "the body");
  const Field request(json, "request");
  TokenizeRequest read;
  read.with_texts = read_boolean(request, "return_token_strs");
  if (request.find("messages")) {
    read.chat = read_chat(json).chat;
    return read;
  }
  const auto prompt = request.find("prompt");  // vLLM's name; llama-server's is content
  read.text = prompt ? prompt->string() : request.need_string("content");
  if (const auto special = request.find("parse_special")) read.parse_special = special->boolean();
  return read;
}

std::vector<TokenId> read_detokenize_request(std::string_view body) {
  const Json json = harmony::parse_json(body, "the body");
  constexpr std::string_view kAccepted{"a list of token ids"};
  return read_tokens(Field(json, "request").need("tokens", kAccepted), kAccepted);
}

}  // namespace nibble::server
