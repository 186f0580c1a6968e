// An answer as it comes: tokens from the engine, and for a harmony model who is speaking to whom.
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
  std::string text;                              // what the user is told
  std::string reasoning;                         // what the model told itself
  std::vector<harmony::ParsedMessage> messages;  // all there was; empty for a raw text
  std::vector<SampledToken> tokens;
  FinishedEvent finished;
};

struct Listener {
  std::function<void(harmony::Part, std::string_view text)> on_text;  // text that is certain
  std::function<bool()> wants_to_stop;                                // asked about ten times a second
};

// Runs the request and waits for its end. `stop` ends the answer before any of these strings: in a harmony answer they
// are looked for in what the user is told, not in thoughts and headers. Throws InputError where the engine can't run it.
Answer stream_raw(Engine& engine, GenerationRequest request, const std::vector<std::string>& stop,
                  const Listener& listener);
Answer stream_harmony(Engine& engine, const Tokenizer& tokenizer, GenerationRequest request,
                      const std::vector<std::string>& stop, const Listener& listener);

}  // namespace nibble::cli
