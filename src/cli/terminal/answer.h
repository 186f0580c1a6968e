// Streams an answer from the engine. Splits a harmony answer into reasoning, tool calls and final text.
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
  std::string reasoning;  // text on the analysis channel
  // all messages of the answer, reasoning included; empty in stream_raw()
  std::vector<harmony::ParsedMessage> messages;
  std::vector<SampledToken> tokens;
  FinishedEvent finished;
};

struct Listener {
  // Receives each piece of text as soon as the piece can no longer become part of a stop string.
  std::function<void(harmony::AnswerPart, std::string_view text)> on_text;
  std::function<bool()> wants_to_stop;  // polled at every event, and at least ten times a second
};

// Both functions return when the request has ended. The answer ends before the first of the `stop` strings.
// In a harmony answer only text for the user is searched. InputError if the request is refused.
Answer stream_raw(Engine& engine, GenerationRequest request, const std::vector<std::string>& stop,
                  const Listener& listener);
Answer stream_harmony(Engine& engine, const Tokenizer& tokenizer, GenerationRequest request,
                      const std::vector<std::string>& stop, const Listener& listener);

}  // namespace nibble::cli
