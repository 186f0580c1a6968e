// A conversation: messages, and settings that may change between turns.
#pragma once

#include <string>
#include <vector>

#include "cli/chat/answerer.h"
#include "cli/terminal/terminal.h"
#include "core/program/settings.h"
#include "harmony/chat.h"

namespace nibble::cli {

class Conversation {
 public:
  // `answerer` must outlive the conversation.
  Conversation(const Settings& settings, Answerer& answerer, CatchInterrupt& interrupt);

  // Streams the answer to stdout until ctrl-C. Throws InputError for an invalid or too long question.
  void ask(const std::string& question);
  void attach(std::string text);  // appends `text` to the next question, after a blank line
  void ask_again();               // asks the last question again; the new answer replaces the old one

  // Changes the setting called `name` in the table of settings; an empty value restores the default.
  void set(const std::string& name, const std::string& value);
  static std::vector<const Setting*> changeable_settings();
  const Settings& settings() const { return settings_; }

  harmony::Chat chat() const;       // the conversation so far, with the current settings
  void resume(harmony::Chat chat);  // replaces messages, instructions, reasoning effort and date
  void forget();                    // removes the messages, keeps the settings

  bool hides_reasoning{false};
  bool shows_stats{false};  // Print token counts and speed after each answer.
  bool has_ended{false};

 private:
  void answer(size_t num_before, std::string question);

  Settings settings_;
  Answerer& answerer_;
  CatchInterrupt& interrupt_;
  std::vector<harmony::ChatMessage> messages_;
  std::vector<std::string> attached_;  // texts to append to the next question
  std::string question_;               // the last question that was sent; empty if no question was sent
  size_t num_before_{0};               // number of messages before question_
};

}  // namespace nibble::cli
