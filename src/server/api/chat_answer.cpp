#include "server/api/chat_answer.h"

#include <algorithm>

#include "harmony/chat.h"
#include "server/http/random_id.h"

namespace nibble::server {
namespace {

constexpr std::string_view kFunctions{"functions."};

}  // namespace

ChatAnswer::ChatAnswer(const Tokenizer& tokenizer, const std::vector<harmony::Tool>& tools,
                       const StopParams& stop, std::span<const TokenId> begun)
    : tokenizer_(tokenizer),
      parser_(tokenizer, harmony::Role::kAssistant),
      stop_(stop),
      matcher_(stop.strings, stop.keeps_stop) {
  for (const harmony::Tool& tool : tools) tool_names_.push_back(tool.name);
  for (const TokenId token : begun) parser_.push(token);
}

std::vector<AnswerDelta> ChatAnswer::push(const SampledToken& token) {
  ++num_tokens_;
  const bool is_stop = std::find(stop_.tokens.begin(), stop_.tokens.end(), token.token) != stop_.tokens.end();
  if (is_stop && !stop_.keeps_stop && !tokenizer_.is_special(token.token)) return {};  // it adds no text
  const auto& messages = parser_.messages();
  const bool in_text = !messages.empty() && !messages.back().is_complete;
  if (in_text && !tokenizer_.is_special(token.token) && !has_stopped() &&
      !called_tool(messages.back().message)) {
    if (messages.back().message.channel == "analysis")
      ++num_reasoning_tokens_;
    else
      content_tokens_.push_back(token);
  }
  return read_delta(parser_.push(token.token));
}

std::vector<AnswerDelta> ChatAnswer::finish() {
  std::vector<AnswerDelta> out = read_delta(parser_.finish());
  add_text(AnswerDelta::Kind::kContent, matcher_.flush(), out);
  if (num_sent_tokens_ < content_tokens_.size()) {  // a stop string removed their text
    AnswerDelta& last = out.emplace_back();
    last.kind = AnswerDelta::Kind::kContent;
    last.tokens.assign(content_tokens_.begin() + static_cast<ptrdiff_t>(num_sent_tokens_),
                       content_tokens_.end());
    num_sent_tokens_ = content_tokens_.size();
  }
  return out;
}

std::optional<std::string> ChatAnswer::called_tool(const harmony::Message& message) const {
  if (tool_names_.empty() || harmony::part_of(message) != harmony::Part::kCall) return std::nullopt;
  std::string_view name = *message.recipient;
  const bool is_function = name.starts_with(kFunctions) && name.size() > kFunctions.size();
  if (is_function) name.remove_prefix(kFunctions.size());
  if (!is_function && std::find(tool_names_.begin(), tool_names_.end(), name) == tool_names_.end())
    return std::nullopt;
  return std::string(name);
}

std::vector<AnswerDelta> ChatAnswer::read_delta(const harmony::Delta& delta) {
  std::vector<AnswerDelta> out;
  const auto& messages = parser_.messages();
  if (messages.empty() || has_stopped()) return out;
  const harmony::Message& message = messages.back().message;
  const bool is_new = messages.size() > num_begun_messages_;
  num_begun_messages_ = messages.size();
  if (is_new) begins_message_ = true;
  if (const auto name = called_tool(message)) {
    if (is_new) {
      calls_.push_back({"call_" + random_id(), *name, ""});
      AnswerDelta& begin = out.emplace_back();
      begin.kind = AnswerDelta::Kind::kCall;
      begin.call_index = static_cast<int>(calls_.size()) - 1;
      begin.id = calls_.back().id;
      begin.name = *name;
    }
    add_arguments(delta, out);
  } else if (message.channel == "analysis") {
    add_text(AnswerDelta::Kind::kReasoning, delta.text, out);
  } else {
    add_text(AnswerDelta::Kind::kContent, searched(delta.text), out);
    if (delta.message_ended) add_text(AnswerDelta::Kind::kContent, matcher_.flush(), out);
  }
  return out;
}

// What is certain of the content with this text; the engine does the same with completions (engine/sequence.cpp).
std::string ChatAnswer::searched(const std::string& text) {
  return num_tokens_ > stop_.min_tokens ? matcher_.push(text) : text;
}

void ChatAnswer::add_arguments(const harmony::Delta& delta, std::vector<AnswerDelta>& out) {
  std::string& arguments = calls_.back().arguments;
  std::string text = delta.text;
  if (delta.message_ended && arguments.empty() && text.empty())
    text = "{}";  // so that the arguments are JSON
  if (text.empty()) return;
  arguments += text;
  AnswerDelta& part = out.emplace_back();
  part.kind = AnswerDelta::Kind::kCall;
  part.call_index = static_cast<int>(calls_.size()) - 1;
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
  begins_message_ = false;
  sum += delta.paragraph();
  if (kind == AnswerDelta::Kind::kReasoning) return;
  delta.tokens.assign(content_tokens_.begin() + static_cast<ptrdiff_t>(num_sent_tokens_),
                      content_tokens_.end());
  num_sent_tokens_ = content_tokens_.size();
}

}  // namespace nibble::server
