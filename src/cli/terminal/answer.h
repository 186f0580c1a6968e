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
  std::string text;                              // the answer to the user
  std::string reasoning;                         // the analysis channel
  std::vector<harmony::ParsedMessage> messages;  // the whole answer; empty for a raw text
  std::vector<SampledToken> tokens;
  FinishedEvent finished;
};

struct Listener {
  // Receives text that can no longer become part of a stop string.
  std::function<void(harmony::AnswerPart, std::string_view text)> on_text;
  std::function<bool()> wants_to_stop;  // called for each event, and at least ten times a second
};

// Both functions wait for the end of the request. The answer ends before the first of the `stop` strings; in
// a harmony answer only text for the user is searched. Throw InputError if the engine refuses the request.
Answer stream_raw(Engine& engine, GenerationRequest request, const std::vector<std::string>& stop,
                  const Listener& listener);
Answer stream_harmony(Engine& engine, const Tokenizer& tokenizer, GenerationRequest request,
                      const std::vector<std::string>& stop, const Listener& listener);

}  // namespace nibble::cli
