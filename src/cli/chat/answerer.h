// Interface that answers the questions of a chat: by a model in this process, or by a server.
#pragma once

#include <string>

#include "cli/terminal/answer.h"
#include "core/program/settings.h"
#include "harmony/chat.h"

namespace nibble::cli {

struct ChatAnswer {
  std::string text, reasoning;
  std::string stats;  // token counts and speed, in one line
  std::string cut;    // reason why the answer ended early, in one line; empty if the model ended it
};

class Answerer {
 public:
  virtual ~Answerer() = default;

  // Streams the answer to the last message of `chat`. Throws InputError if no answer can be started.
  virtual ChatAnswer answer(const harmony::Chat& chat, const Settings& settings,
                            const Listener& listener) = 0;
};

}  // namespace nibble::cli
