#include "server/api/reply.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/text/json_text.h"
#include "core/text/remove_member.h"
#include "text/utf8_stream.h"

namespace nibble::server {
namespace {

// JSON has no infinity: as in OpenAI's API, -9999 stands for a probability of 0.
double finite(float logprob) { return std::max(-9999.0, static_cast<double>(logprob)); }

Json token_json(TokenId token, float logprob, const Tokenizer& tokenizer) {
  Json bytes = Json::array();
  for (const char byte : tokenizer.bytes(token)) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", token_text(token, tokenizer)}, {"logprob", finite(logprob)}, {"bytes", std::move(bytes)}};
}

Json with_head(const ReplyHead& head, std::string_view object) {
  Json json{{"id", head.id}, {"object", object}, {"created", head.created}, {"model", head.model}};
  if (object.starts_with("chat")) json["service_tier"] = "default";  // completions have no such member
  json["system_fingerprint"] = head.fingerprint;
  return json;
}

// Returns {"type", "function": {"name", "arguments"}} or {"type", "custom": {"name", "input"}}; later deltas
// of a call have only the text. The name has no namespace, because chat APIs have none.
Json call_json(const OfferedTool& tool, const std::string& text, bool begins) {
  const bool is_custom = tool.kind == ToolKind::kCustom;
  const char* type = is_custom ? "custom" : "function";
  Json json = Json::object();
  if (begins) {
    json["type"] = type;
    json[type]["name"] = tool.name;
  }
  json[type][is_custom ? "input" : "arguments"] = text;
  return json;
}

Json reason_json(std::optional<std::string_view> reason) { return reason ? Json(*reason) : Json(nullptr); }

}  // namespace

Json to_json(const Usage& usage) {
  Json details{{"reasoning_tokens", usage.num_reasoning_tokens}};
  if (usage.num_prediction_tokens > 0) {
    details["accepted_prediction_tokens"] = usage.num_accepted_tokens;
    details["rejected_prediction_tokens"] = usage.num_prediction_tokens - usage.num_accepted_tokens;
  }
  return {{"prompt_tokens", usage.num_prompt_tokens},
          {"completion_tokens", usage.num_output_tokens},
          {"total_tokens", usage.num_prompt_tokens + usage.num_output_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.num_cached_tokens}}},
          {"completion_tokens_details", std::move(details)}};
}

void ChunkUsage::add_to(Json& chunk) const {
  if (is_continuous)
    chunk["usage"] = to_json(so_far);
  else if (is_included)
    chunk["usage"] = nullptr;
}

std::string_view finish_reason(FinishReason reason, bool ends_in_call) {
  if (reason == FinishReason::kMaxTokens || reason == FinishReason::kContextFull) return "length";
  return ends_in_call ? "tool_calls" : "stop";
}

double decimal(float value) {
  const std::string text = fmt::format("{}", value);
  double number{};
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Json chat_logprobs(const std::vector<SampledToken>& tokens, const Tokenizer& tokenizer) {
  Json content = Json::array();
  for (const SampledToken& token : tokens) {
    Json row = token_json(token.token, token.logprob, tokenizer);
    row["top_logprobs"] = Json::array();
    for (const TokenLogprob& other : token.top)
      row["top_logprobs"].push_back(token_json(other.token, other.logprob, tokenizer));
    content.push_back(std::move(row));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json chat_choice(size_t index, const ChatAnswer& answer, std::string_view finish_reason,
                 const Json& logprobs) {
  Json message{{"role", "assistant"}, {"content", answer.content()}, {"refusal", nullptr}};
  if (answer.content().empty() && !answer.calls().empty()) message["content"] = nullptr;
  if (!answer.reasoning().empty()) message["reasoning_content"] = message["reasoning"] = answer.reasoning();
  for (const ChatAnswer::Call& call : answer.calls()) {
    Json json{{"id", call.id}};
    json.update(call_json(call.tool, call.arguments, /*begins=*/true));
    message["tool_calls"].push_back(std::move(json));
  }
  return {{"index", index},
          {"message", std::move(message)},
          {"logprobs", logprobs},
          {"finish_reason", finish_reason}};
}

void use_function_call(Json& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return;
  Json call = std::move((*calls)[0]["function"]);
  remove_member(message, "tool_calls");
  message["function_call"] = std::move(call);
}

Json chat_reply(const ReplyHead& head, Json choices, const Usage& usage) {
  Json reply = with_head(head, "chat.completion");
  reply["choices"] = std::move(choices);
  reply["usage"] = to_json(usage);
  return reply;
}

Json chat_chunk(const ReplyHead& head, size_t index, const Json& delta, const Json& logprobs,
                std::optional<std::string_view> finish_reason) {
  Json chunk = with_head(head, "chat.completion.chunk");
  chunk["choices"] = Json::array({Json{{"index", index},
                                       {"delta", delta},
                                       {"logprobs", logprobs},
                                       {"finish_reason", reason_json(finish_reason)}}});
  return chunk;
}

Json to_json(const PromptEvent& progress) {
  return {{"total", progress.num_prompt_tokens},
          {"cache", progress.num_cached_tokens},
          {"processed", progress.num_done_tokens},
          {"time_ms", static_cast<int64_t>(1e3 * progress.run_seconds)},
          {"queue", progress.place}};
}

Json to_json(const AnswerDelta& delta) {
  switch (delta.kind) {
    case AnswerDelta::Kind::kReasoning:
      return {{"reasoning_content", delta.paragraph()}, {"reasoning", delta.paragraph()}};
    case AnswerDelta::Kind::kContent:
      return {{"content", delta.paragraph()}};
    case AnswerDelta::Kind::kCall:
      break;
  }
  Json call{{"index", delta.call_index}};
  if (!delta.id.empty()) call["id"] = delta.id;
  call.update(call_json(delta.tool, delta.text, !delta.id.empty()));
  return {{"tool_calls", Json::array({std::move(call)})}};
}

CompletionLogprobs::CompletionLogprobs(const Tokenizer& tokenizer, int64_t num_characters)
    : tokenizer_(tokenizer),
      num_characters_(num_characters),
      lists_({{"tokens", Json::array()},
              {"token_logprobs", Json::array()},
              {"top_logprobs", Json::array()},
              {"text_offset", Json::array()}}) {}

void CompletionLogprobs::add_text(TokenId token) {
  std::string text = token_text(token, tokenizer_);
  lists_["text_offset"].push_back(num_characters_);
  num_characters_ += count_characters(text);
  lists_["tokens"].push_back(std::move(text));
}

void CompletionLogprobs::add_first(TokenId token) {
  add_text(token);
  lists_["token_logprobs"].push_back(nullptr);
  lists_["top_logprobs"].push_back(nullptr);
}

void CompletionLogprobs::add(const std::vector<SampledToken>& tokens) {
  for (const SampledToken& token : tokens) {
    add_text(token.token);
    Json top = Json::object();
    // If several tokens have the same text, emplace() keeps the first, which is the likeliest.
    for (const TokenLogprob& other : token.top)
      top.emplace(token_text(other.token, tokenizer_), finite(other.logprob));
    lists_["token_logprobs"].push_back(finite(token.logprob));
    lists_["top_logprobs"].push_back(std::move(top));
  }
}

Json prompt_logprobs(const std::vector<SampledToken>& prompt, const Tokenizer& tokenizer) {
  Json list = Json::array({nullptr});
  for (const SampledToken& token : prompt) {
    Json row = Json::object();
    const auto add = [&](TokenId id, float logprob, const Json& rank) {
      row.emplace(
          std::to_string(id),
          Json{{"logprob", finite(logprob)}, {"rank", rank}, {"decoded_token", token_text(id, tokenizer)}});
    };
    for (const TokenLogprob& other : token.top) add(other.token, other.logprob, row.size() + 1);
    add(token.token, token.logprob, nullptr);  // no effect if the token is among token.top
    list.push_back(std::move(row));
  }
  return list;
}

Json completion_choice(size_t index, const std::string& text, const Json& logprobs,
                       std::optional<std::string_view> finish_reason) {
  return {{"index", index},
          {"text", text},
          {"logprobs", logprobs},
          {"finish_reason", reason_json(finish_reason)}};
}

Json completion_reply(const ReplyHead& head, Json choices) {
  Json reply = with_head(head, "text_completion");
  reply["choices"] = std::move(choices);
  return reply;
}

Json usage_chunk(const ReplyHead& head, std::string_view object, const Usage& usage) {
  Json chunk = with_head(head, object);
  chunk["choices"] = Json::array();
  chunk["usage"] = to_json(usage);
  return chunk;
}

std::string token_text(TokenId token, const Tokenizer& tokenizer) {
  Utf8Stream utf8;
  std::string text = utf8.push(tokenizer.bytes(token));
  return text += utf8.finish();
}

int64_t count_characters(std::string_view text) {
  return std::ranges::count_if(text,
                               [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
}

std::string print(const Json& json) { return json_text(json); }

std::string sse_event(const Json& json) { return "data: " + print(json) + "\n\n"; }

std::string named_sse_event(const Json& json) {
  return "event: " + json.at("type").get<std::string>() + "\n" + sse_event(json);
}

}  // namespace nibble::server
