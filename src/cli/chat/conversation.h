// A conversation with a model: what was said, what is asked next, and settings that may change between turns.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/answer_format.h"
#include "cli/terminal/terminal.h"
#include "core/settings.h"
#include "engine/engine.h"
#include "harmony/chat.h"
#include "model/config.h"
#include "model/ops.h"
#include "text/tokenizer.h"

namespace nibble::cli {

struct ChatModel {  // a model that is loaded and waits for questions
  const Config& config;
  const Tokenizer& tokenizer;
  Engine& engine;
  StorageFormats formats;
  int context;
};

class Conversation {
 public:
  Conversation(const Settings& settings, const ChatModel& model, CatchInterrupt& interrupt);

  // Streams the answer to stdout; ctrl-C ends it. Throws InputError where the question can't be asked.
  void ask(const std::string& question);
  void ask_again();  // the last question; the new answer takes the place of the old one

  // Sets a setting by its name in the table, of those that make sense between turns; without a value to its default.
  void set(const std::string& name, const std::string& value);
  static std::vector<const Setting*> changeable_settings();
  const Settings& settings() const { return settings_; }

  harmony::Chat chat() const;       // all of it, as the next question finds it
  void resume(harmony::Chat chat);  // in the place of this one
  void forget();                    // what was said, not the settings

  bool hides_reasoning{false};
  bool has_ended{false};

 private:
  void answer(size_t num_before, std::string question);

  Settings settings_;
  ChatModel model_;
  CatchInterrupt& interrupt_;
  AnswerFormat format_;
  std::vector<harmony::ChatMessage> messages_;
  std::string question_;  // the last one that was sent; empty: none was
  size_t num_before_{0};  // messages before it
};

}  // namespace nibble::cli
