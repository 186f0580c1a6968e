// Streams an answer from the engine, and for a harmony model splits it into reasoning, calls and the answer to the user.
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
  std::string text;                              // for the user
  std::string reasoning;                         // the analysis channel
  std::vector<harmony::ParsedMessage> messages;  // all of the answer; empty for a raw text
  std::vector<SampledToken> tokens;
  FinishedEvent finished;
};

struct Listener {
  // Gets text that can no longer become part of a stop string.
  std::function<void(harmony::Part, std::string_view text)> on_text;
  std::function<bool()> wants_to_stop;  // asked about ten times a second
};

// Runs the request and waits for its end. The answer ends before any of the `stop` strings. In a harmony answer they are looked for
// in the text for the user, not in reasoning and headers. Throws InputError where the engine refuses the request.
Answer stream_raw(Engine& engine, GenerationRequest request, const std::vector<std::string>& stop,
                  const Listener& listener);
Answer stream_harmony(Engine& engine, const Tokenizer& tokenizer, GenerationRequest request,
                      const std::vector<std::string>& stop, const Listener& listener);

}  // namespace nibble::cli
