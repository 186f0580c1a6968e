#include "server/api/chat_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "harmony/chat.h"

namespace nibble::server {
namespace {

constexpr std::string_view kFunctions{"functions."};

}  // namespace

std::string random_id() {
  thread_local std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}", device(), device(), device());
}

ChatAnswer::ChatAnswer(const Tokenizer& tokenizer, const std::vector<harmony::Tool>& tools,
                       const std::vector<std::string>& stop)
    : tokenizer_(tokenizer), parser_(tokenizer, harmony::Role::kAssistant), matcher_(stop) {
  for (const harmony::Tool& tool : tools) tool_names_.push_back(tool.name);
}

std::vector<AnswerDelta> ChatAnswer::push(const SampledToken& token) {
  const auto& messages = parser_.messages();
  const bool in_text = !messages.empty() && !messages.back().is_complete;
  if (in_text && !tokenizer_.is_special(token.token) && !has_stopped() &&
      !called_tool(messages.back().message)) {
    if (messages.back().message.channel == "analysis")
      ++num_reasoning_tokens_;
    else
      content_tokens_.push_back(token);
  }
  return take(parser_.push(token.token));
}

std::vector<AnswerDelta> ChatAnswer::finish() {
  std::vector<AnswerDelta> out = take(parser_.finish());
  say(AnswerDelta::Kind::kContent, matcher_.flush(), out);
  if (num_told_tokens_ < content_tokens_.size()) {  // a stop string removed their text
    AnswerDelta& last = out.emplace_back();
    last.kind = AnswerDelta::Kind::kContent;
    last.tokens.assign(content_tokens_.begin() + static_cast<ptrdiff_t>(num_told_tokens_),
                       content_tokens_.end());
    num_told_tokens_ = content_tokens_.size();
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

std::vector<AnswerDelta> ChatAnswer::take(const harmony::Delta& delta) {
  std::vector<AnswerDelta> out;
  const auto& messages = parser_.messages();
  if (messages.empty() || has_stopped()) return out;
  const harmony::Message& message = messages.back().message;
  const bool is_new = messages.size() > num_begun_;
  num_begun_ = messages.size();
  if (is_new) is_separate_ = true;
  if (const auto name = called_tool(message)) {
    if (is_new) {
      calls_.push_back({"call_" + random_id(), *name, ""});
      AnswerDelta& begin = out.emplace_back();
      begin.kind = AnswerDelta::Kind::kCall;
      begin.call_index = static_cast<int>(calls_.size()) - 1;
      begin.id = calls_.back().id;
      begin.name = *name;
    }
    call(delta, out);
  } else if (message.channel == "analysis") {
    say(AnswerDelta::Kind::kReasoning, delta.text, out);
  } else {
    say(AnswerDelta::Kind::kContent, matcher_.push(delta.text), out);
    if (delta.message_ended) say(AnswerDelta::Kind::kContent, matcher_.flush(), out);
  }
  return out;
}

void ChatAnswer::call(const harmony::Delta& delta, std::vector<AnswerDelta>& out) {
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

void ChatAnswer::say(AnswerDelta::Kind kind, const std::string& text, std::vector<AnswerDelta>& out) {
  if (text.empty()) return;
  std::string& sum = kind == AnswerDelta::Kind::kReasoning ? reasoning_ : content_;
  AnswerDelta& delta = out.emplace_back();
  delta.kind = kind;
  delta.text = text;
  delta.begins_message = is_separate_;
  delta.begins_paragraph = is_separate_ && !sum.empty();
  is_separate_ = false;
  sum += delta.paragraph();
  if (kind == AnswerDelta::Kind::kReasoning) return;
  delta.tokens.assign(content_tokens_.begin() + static_cast<ptrdiff_t>(num_told_tokens_),
                      content_tokens_.end());
  num_told_tokens_ = content_tokens_.size();
}

}  // namespace nibble::server
