#include "server/api/anthropic_answer.h"

#include <utility>

namespace nibble::server {
namespace {

using BlockKind = AnswerDelta::Kind;

Json anthropic_usage(const Usage& usage) {
  return {{"input_tokens", usage.num_prompt_tokens - usage.num_cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.num_cached_tokens},
          {"output_tokens", usage.num_output_tokens}};
}

Json new_block(const AnswerDelta& delta) {
  switch (delta.kind) {
    case BlockKind::kReasoning:
      return {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
    case BlockKind::kContent:
      return {{"type", "text"}, {"text", ""}, {"citations", nullptr}};
    case BlockKind::kCall:
      break;
  }
  return {{"type", "tool_use"}, {"id", delta.id}, {"name", delta.tool.name}, {"input", Json::object()}};
}

Json delta_json(const AnswerDelta& delta) {
  switch (delta.kind) {
    case BlockKind::kReasoning:
      return {{"type", "thinking_delta"}, {"thinking", delta.text}};
    case BlockKind::kContent:
      return {{"type", "text_delta"}, {"text", delta.text}};
    case BlockKind::kCall:
      break;
  }
  return {{"type", "input_json_delta"}, {"partial_json", delta.text}};
}

// Clients send this signature back with a thinking block. It proves nothing: the server accepts any thinking.
constexpr const char* kSignature{"nibble"};

}  // namespace

AnthropicMessage::AnthropicMessage(const ReplyHead& head, bool shows_thinking)
    : shows_thinking_(shows_thinking),
      message_({{"id", head.id},
                {"type", "message"},
                {"role", "assistant"},
                {"model", head.model},
                {"content", Json::array()},
                {"stop_reason", nullptr},
                {"stop_sequence", nullptr},
                {"usage", anthropic_usage({})}}) {}

std::string AnthropicMessage::begin(const Usage& usage) {
  has_begun_ = true;
  message_["usage"] = anthropic_usage(usage);
  return anthropic_event({{"type", "message_start"}, {"message", message_}}) +
         anthropic_event({{"type", "ping"}});
}

std::string AnthropicMessage::push(const std::vector<AnswerDelta>& deltas) {
  std::string events;
  Json& content = message_["content"];
  for (const AnswerDelta& delta : deltas) {
    if (delta.kind == BlockKind::kReasoning && !shows_thinking_) continue;
    const bool begins = delta.kind == BlockKind::kCall ? !delta.id.empty() : delta.begins_message;
    if (delta.text.empty() && !begins) continue;
    if (begins || open_ != delta.kind) {
      events += end_block();
      content.push_back(new_block(delta));
      open_ = delta.kind;
      events += anthropic_event({{"type", "content_block_start"},
                                 {"index", content.size() - 1},
                                 {"content_block", content.back()}});
    }
    if (delta.text.empty()) continue;
    if (delta.kind == BlockKind::kCall) {
      arguments_ += delta.text;
    } else {
      Json& text = content.back()[delta.kind == BlockKind::kContent ? "text" : "thinking"];
      text = text.get_ref<const std::string&>() + delta.text;
    }
    events += anthropic_event(
        {{"type", "content_block_delta"}, {"index", content.size() - 1}, {"delta", delta_json(delta)}});
  }
  return events;
}

// Ends the open block and returns its last events. Arguments that are not a JSON object are wrapped:
// {"arguments": TEXT}.
std::string AnthropicMessage::end_block() {
  if (!open_) return "";
  const size_t index = message_["content"].size() - 1;
  Json& block = message_["content"].back();
  std::string events;
  if (open_ == BlockKind::kCall) {
    Json input = Json::parse(arguments_, nullptr, /*allow_exceptions=*/false);
    block["input"] = input.is_object() ? std::move(input) : Json{{"arguments", arguments_}};
    arguments_.clear();
  } else if (open_ == BlockKind::kReasoning) {
    block["signature"] = kSignature;
    events = anthropic_event({{"type", "content_block_delta"},
                              {"index", index},
                              {"delta", {{"type", "signature_delta"}, {"signature", kSignature}}}});
  }
  open_.reset();
  return events + anthropic_event({{"type", "content_block_stop"}, {"index", index}});
}

std::string AnthropicMessage::end(std::string_view stop_reason, const std::string& stop_sequence,
                                  const Usage& usage) {
  std::string events = end_block();
  message_["stop_reason"] = stop_reason;
  message_["stop_sequence"] = stop_sequence.empty() ? Json() : Json(stop_sequence);
  message_["usage"] = anthropic_usage(usage);
  events += anthropic_event(
      {{"type", "message_delta"},
       {"delta", {{"stop_reason", stop_reason}, {"stop_sequence", message_["stop_sequence"]}}},
       {"usage", message_["usage"]}});
  return events + anthropic_event({{"type", "message_stop"}});
}

std::string anthropic_event(const Json& event) { return named_sse_event(event); }

Json anthropic_error(int status, std::string_view message, std::string_view request_id) {
  constexpr std::pair<int, std::string_view> kTypes[]{
      {401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},
      {413, "request_too_large"},    {429, "rate_limit_error"}, {503, "overloaded_error"},
      {504, "timeout_error"}};
  std::string_view type = status < 500 ? "invalid_request_error" : "api_error";
  for (const auto& [known, name] : kTypes)
    if (status == known) type = name;
  return {{"type", "error"}, {"error", {{"type", type}, {"message", message}}}, {"request_id", request_id}};
}

}  // namespace nibble::server
