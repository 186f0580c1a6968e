// Answers a chat with a model in this process.
#pragma once

#include "cli/chat/answerer.h"
#include "engine/engine.h"
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

class LocalAnswerer final : public Answerer {
 public:
  explicit LocalAnswerer(const ChatModel& model) : model_(model), format_(model.tokenizer) {}

  // On a terminal, shows a spinner while the prompt is processed.
  ChatAnswer answer(const harmony::Chat& chat, const Settings& settings, const Listener& listener) override;

 private:
  ChatModel model_;
  AnswerFormat format_;
};

}  // namespace nibble::cli
