#include "cli/chat/conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/terminal/answer_printer.h"
#include "cli/terminal/prompt.h"
#include "core/errors/error.h"
#include "turn/new_request.h"

namespace nibble::cli {

Conversation::Conversation(const Settings& settings, Answerer& answerer, CatchInterrupt& interrupt)
    : settings_(settings), answerer_(answerer), interrupt_(interrupt) {
  // Keep the first turn's date: a new date would change the prompt and miss the prefix cache.
  if (!settings_.date) settings_.date = harmony::today();
}

harmony::Chat Conversation::chat() const {
  harmony::Chat chat = new_chat(settings_);
  chat.messages = messages_;
  return chat;
}

void Conversation::ask(const std::string& question) {
  std::vector<std::string> parts{question};
  parts.insert(parts.end(), attached_.begin(), attached_.end());
  answer(messages_.size(), join_parts(parts));
  attached_.clear();  // kept if the question was refused
}

void Conversation::attach(std::string text) { attached_.push_back(std::move(text)); }

void Conversation::ask_again() {
  if (question_.empty()) throw InputError("no question yet");
  answer(num_before_, question_);
}

void Conversation::forget() {
  messages_.clear();
  attached_.clear();
  question_.clear();
}

void Conversation::resume(harmony::Chat chat) {
  settings_.system = chat.instructions.empty() ? std::nullopt : std::optional(chat.instructions);
  settings_.reasoning = name(chat.reasoning_effort);
  if (chat.date) settings_.date = chat.date;
  forget();
  messages_ = std::move(chat.messages);
  for (size_t i = 0; i < messages_.size(); ++i)
    if (messages_[i].role == harmony::Role::kUser) {
      question_ = messages_[i].text;
      num_before_ = i;
    }
}

std::vector<const Setting*> Conversation::changeable_settings() {
  std::vector<const Setting*> found;
  for (const Setting& setting : setting_table())
    if (setting.group == SettingGroup::kInstruction || setting.group == SettingGroup::kDate ||
        setting.group == SettingGroup::kSampling || setting.group == SettingGroup::kAnswer)
      found.push_back(&setting);
  return found;
}

void Conversation::set(const std::string& name, const std::string& value) {
  std::string names;
  for (const Setting* setting : changeable_settings()) {
    if (setting->name == name) {
      if (value.empty())
        reset(settings_, *setting);
      else
        nibble::set(settings_, *setting, value, name);
      return;
    }
    names += fmt::format("{}{}", names.empty() ? "" : ", ", setting->name);
  }
  throw InputError("'{}' can't be set here; expected one of {}", name, names);
}

void Conversation::answer(size_t num_before, std::string question) {
  if (const auto at = first_invalid_utf8(question))
    throw InputError("not valid UTF-8 at byte {}; not sent", *at);
  harmony::Chat asked = chat();
  asked.messages.resize(num_before);
  asked.messages.emplace_back().text = question;
  interrupt_.take();  // discard a ctrl-C from before the question: it must not stop this answer
  AnswerPrinter printer({.reasoning = stdout, .hides_reasoning = hides_reasoning});
  Listener listener;
  listener.on_text = [&](harmony::AnswerPart part, std::string_view text) { printer.show(part, text); };
  listener.wants_to_stop = [&] { return interrupt_.take(); };
  const ChatAnswer answer = answerer_.answer(asked, settings_, listener);
  printer.finish();
  question_ = std::move(question);
  num_before_ = num_before;
  const std::string& end = shows_stats ? answer.stats : answer.cut;
  if (!end.empty()) fmt::print("{}{}{}\n", dim_on(stdout), end, dim_off(stdout));

  // If the answer is empty, drop it and its question: an unanswered question would confuse the model.
  if (answer.text.empty()) {
    fmt::print("{}no answer; {}{}\n", dim_on(stdout),
               num_before < messages_.size() ? "the earlier one is kept" : "the question is dropped",
               dim_off(stdout));
    return;
  }
  messages_ = std::move(asked.messages);
  harmony::ChatMessage& message = messages_.emplace_back();
  message.role = harmony::Role::kAssistant;
  message.text = answer.text;
  message.reasoning = answer.reasoning;
}

}  // namespace nibble::cli
