#include "server/api/chat_answer.h"

#include <algorithm>

#include "harmony/chat.h"
#include "server/http/random_id.h"

namespace nibble::server {
namespace {

constexpr std::string_view kFunctions{"functions."};

}  // namespace

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
    add_text(AnswerDelta::Kind::kContent, matcher_.push(delta.text), out);
    if (delta.message_ended) add_text(AnswerDelta::Kind::kContent, matcher_.flush(), out);
  }
  return out;
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
