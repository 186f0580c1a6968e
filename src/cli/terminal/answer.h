// Streams an answer from the engine; splits a harmony answer into reasoning, tool calls and final text.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "harmony/chat.h"
#include "harmony/parse.h"
#include "text/tokenizer.h"

namespace nibble::cli {

struct Answer {
  std::string text;       // text for the user
  std::string reasoning;  // the analysis channel
  // all messages of the answer, reasoning included; empty in stream_raw()
  std::vector<harmony::ParsedMessage> messages;
  std::vector<SampledToken> tokens;
  FinishedEvent finished;
  // Whether ctrl-C came during a step that can't be interrupted. Then `finished` has no counts, and the
  // engine is busy until the step ends.
  bool is_abandoned{false};
};

struct Listener {
  // Receives a piece of text as soon as the piece cannot become part of a stop string.
  std::function<void(harmony::AnswerPart, std::string_view text)> on_text;
  std::function<bool()> wants_to_stop;  // polled at every event, and twenty times a second
  std::function<void()> on_wait{};      // called twenty times a second until the first token; may be empty
};

// Both functions return when the request has ended, or 0.1 s after wants_to_stop() returned true. The answer
// ends before the first of the `stop` strings; in a harmony answer, only text for the user is searched. Throw
// InputError if the request is refused.
Answer stream_raw(Engine& engine, GenerationRequest request, const std::vector<std::string>& stop,
                  const Listener& listener);
Answer stream_harmony(Engine& engine, const Tokenizer& tokenizer, GenerationRequest request,
                      const std::vector<std::string>& stop, const Listener& listener);

}  // namespace nibble::cli
