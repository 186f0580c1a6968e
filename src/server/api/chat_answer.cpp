#include "server/api/chat_answer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "harmony/chat.h"
#include "harmony/control_tokens.h"
#include "server/http/random_id.h"

namespace nibble::server {
namespace {

constexpr std::string_view kFunctions{"functions"};

}  // namespace

ChatAnswer::ChatAnswer(const Tokenizer& tokenizer, std::vector<OfferedTool> tools, const StopParams& stop,
                       std::span<const TokenId> begun, int stream_interval)
    : tokenizer_(tokenizer),
      tools_(std::move(tools)),
      parser_(tokenizer, harmony::Role::kAssistant),
      stop_(stop),
      matcher_(stop.strings, stop.keeps_stop),
      pace_(stream_interval) {
  for (const TokenId token : begun) parser_.push(token);
}

std::vector<AnswerDelta> ChatAnswer::push(const SampledToken& token) {
  ++num_tokens_;
  pace_.add_token();
  const bool is_stop = std::ranges::find(stop_.tokens, token.token) != stop_.tokens.end();
  if (is_stop && !stop_.keeps_stop && !harmony::ControlTokens(tokenizer_).is_terminator(token.token))
    return {};  // a stop token of the request is not text, and does not end the harmony message
  const auto& messages = parser_.messages();
  const bool in_text = !messages.empty() && !messages.back().is_complete;
  if (in_text && !tokenizer_.is_special(token.token) && !has_stopped() && !called_tool(messages.back())) {
    if (messages.back().message.channel == "analysis")
      ++num_reasoning_tokens_;
    else
      content_tokens_.push_back(token);
  }
  return join(read_delta(parser_.push(token.token)), /*is_end=*/false);
}

std::vector<AnswerDelta> ChatAnswer::finish() {
  std::vector<AnswerDelta> out = read_delta(parser_.finish());
  add_text(AnswerDelta::Kind::kContent, matcher_.flush(), out);
  // Report content tokens that no delta contains because a stop string cut off their text.
  if (num_sent_tokens_ < content_tokens_.size()) {
    AnswerDelta& last = out.emplace_back();
    last.kind = AnswerDelta::Kind::kContent;
    last.tokens.assign(content_tokens_.begin() + static_cast<ptrdiff_t>(num_sent_tokens_),
                       content_tokens_.end());
    num_sent_tokens_ = content_tokens_.size();
  }
  return join(std::move(out), /*is_end=*/true);
}

// Returns the deltas to send now: deltas held back earlier, then `deltas`. Empty until an event is due.
std::vector<AnswerDelta> ChatAnswer::join(std::vector<AnswerDelta> deltas, bool is_end) {
  if (!pace_.joins()) return deltas;
  for (AnswerDelta& delta : deltas) {
    const bool goes_on = !joined_.empty() && joined_.back().kind == delta.kind && !delta.begins_message &&
                         delta.id.empty() && joined_.back().call_index == delta.call_index;
    if (!goes_on) {
      joined_.push_back(std::move(delta));
      continue;
    }
    joined_.back().text += delta.text;
    std::move(delta.tokens.begin(), delta.tokens.end(), std::back_inserter(joined_.back().tokens));
  }
  if (joined_.empty() || (!is_end && !pace_.is_due())) return {};
  pace_.count_event();
  return std::exchange(joined_, {});
}

bool ChatAnswer::ends_in_call() const {
  const auto& messages = parser_.messages();
  return !messages.empty() && messages.back().ends_in_call && called_tool(messages.back());
}

bool ChatAnswer::has_cut_call() const {
  const auto& messages = parser_.messages();
  return !messages.empty() && !messages.back().ends_in_call && called_tool(messages.back());
}

std::optional<OfferedTool> ChatAnswer::called_tool(const harmony::ParsedMessage& parsed) const {
  const harmony::Message& message = parsed.message;
  if (harmony::part_of(message) != harmony::AnswerPart::kCall) return std::nullopt;
  if (parsed.has_cut_header && message.text.empty()) return std::nullopt;
  const std::string_view recipient = *message.recipient;
  const size_t point = recipient.find('.');
  const std::string_view space = recipient.substr(0, point);
  const std::string_view name = point == std::string_view::npos ? "" : recipient.substr(point + 1);
  const auto offered = std::ranges::find_if(tools_, [&](const OfferedTool& tool) {
    return recipient == tool.name || (space == tool.space && name == tool.name);
  });
  if (offered != tools_.end()) return offered->may_be_called ? std::optional(*offered) : std::nullopt;
  bool is_known = space == kFunctions, may_call = false;
  for (const OfferedTool& tool : tools_) {
    if (space == tool.space && tool.name.starts_with(name)) return std::nullopt;
    is_known |= space == tool.space;
    may_call |= tool.may_be_called;
  }
  if (!is_known || !may_call || !harmony::is_tool_name(name)) return std::nullopt;
  return OfferedTool{.name = std::string(name), .space = std::string(space)};
}

std::vector<AnswerDelta> ChatAnswer::read_delta(const harmony::Delta& delta) {
  std::vector<AnswerDelta> out;
  const auto& messages = parser_.messages();
  if (messages.empty() || has_stopped()) return out;
  const harmony::ParsedMessage& parsed = messages.back();
  const bool is_new = messages.size() > num_begun_messages_;
  num_begun_messages_ = messages.size();
  if (is_new) begins_message_ = true;
  if (const auto tool = called_tool(parsed)) {
    if (is_new) {
      calls_.push_back({"call_" + random_id(), *tool, ""});
      add_call_text("", out);
      out.back().id = calls_.back().id;
      if (tool->kind == ToolKind::kCustom) custom_arguments_.emplace();
    }
    add_arguments(delta, parsed.ends_in_call, out);
  } else if (parsed.message.channel == "analysis") {
    add_text(AnswerDelta::Kind::kReasoning, delta.text, out);
  } else {
    is_preamble_ = parsed.message.channel == "commentary";
    add_text(AnswerDelta::Kind::kContent, searched(delta.text), out);
    if (delta.message_ended) add_text(AnswerDelta::Kind::kContent, matcher_.flush(), out);
  }
  return out;
}

// Searches `text` for stop strings once the answer has more than min_tokens tokens. Returns the part of the
// text that can't belong to a stop string.
std::string ChatAnswer::searched(const std::string& text) {
  return num_tokens_ > stop_.min_tokens ? matcher_.push(text) : text;
}

// Adds a delta with the next part of a call's arguments. `is_whole`: whether the call has ended with
// <|call|>.
void ChatAnswer::add_arguments(const harmony::Delta& delta, bool is_whole, std::vector<AnswerDelta>& out) {
  std::string text = delta.text;
  if (custom_arguments_) {  // The text of a custom tool is known only when its JSON is complete.
    *custom_arguments_ += delta.text;
    if (!delta.message_ended) return;
    text = input_of(*custom_arguments_, is_whole);
    custom_arguments_.reset();
  } else if (delta.message_ended && is_whole && calls_.back().arguments.empty() && text.empty()) {
    text = "{}";  // arguments must be JSON
  }
  if (!text.empty()) add_call_text(std::move(text), out);
}

void ChatAnswer::add_call_text(std::string text, std::vector<AnswerDelta>& out) {
  Call& call = calls_.back();
  call.arguments += text;
  AnswerDelta& part = out.emplace_back();
  part.kind = AnswerDelta::Kind::kCall;
  part.call_index = static_cast<int>(calls_.size()) - 1;
  part.tool = call.tool;
  part.text = std::move(text);
}

void ChatAnswer::add_text(AnswerDelta::Kind kind, const std::string& text, std::vector<AnswerDelta>& out) {
  if (text.empty()) return;
  std::string& sum = kind == AnswerDelta::Kind::kReasoning ? reasoning_ : content_;
  AnswerDelta& delta = out.emplace_back();
  delta.kind = kind;
  delta.text = text;
  delta.begins_message = begins_message_;
  delta.begins_paragraph = begins_message_ && !sum.empty();
  delta.is_preamble = kind == AnswerDelta::Kind::kContent && is_preamble_;
  begins_message_ = false;
  sum += delta.paragraph();
  if (kind == AnswerDelta::Kind::kReasoning) return;
  delta.tokens.assign(content_tokens_.begin() + static_cast<ptrdiff_t>(num_sent_tokens_),
                      content_tokens_.end());
  num_sent_tokens_ = content_tokens_.size();
}

}  // namespace nibble::server
