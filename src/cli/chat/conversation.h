// A conversation: messages, and settings that may change between turns.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/terminal.h"
#include "core/settings.h"
#include "engine/engine.h"
#include "harmony/chat.h"
#include "model/config.h"
#include "model/ops.h"
#include "text/tokenizer.h"
#include "turn/answer_format.h"

namespace nibble::cli {

struct ChatModel {
  const Config& config;
  const Tokenizer& tokenizer;
  Engine& engine;
  StorageFormats formats;
  int context;
};

class Conversation {
 public:
  Conversation(const Settings& settings, const ChatModel& model, CatchInterrupt& interrupt);

  // Streams the answer to stdout until ctrl-C. Throws InputError for an invalid or too long question.
  void ask(const std::string& question);
  void ask_again();  // asks the last question again; the new answer replaces the old one

  // Changes the setting called `name` in the table of settings; an empty value restores the default.
  void set(const std::string& name, const std::string& value);
  static std::vector<const Setting*> changeable_settings();
  const Settings& settings() const { return settings_; }

  harmony::Chat chat() const;       // the conversation so far, with the current settings
  void resume(harmony::Chat chat);  // replaces messages, instructions, reasoning effort and date
  void forget();                    // removes the messages, keeps the settings

  bool hides_reasoning{false};
  bool has_ended{false};

 private:
  void answer(size_t num_before, std::string question);

  Settings settings_;
  ChatModel model_;
  CatchInterrupt& interrupt_;
  AnswerFormat format_;
  std::vector<harmony::ChatMessage> messages_;
  std::string question_;  // the last question that was sent; empty: none
  size_t num_before_{0};  // number of messages before question_
};

}  // namespace nibble::cli
