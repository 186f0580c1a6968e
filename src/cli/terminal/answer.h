// Streams an answer from the engine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "text/tokenizer.h"
#include "turn/answer_reader.h"

namespace nibble::cli {

struct Listener {
  AnswerReader::OnText on_text;
  std::function<bool()> wants_to_stop;  // polled at every event, and at least ten times a second
};

// Both functions return when the request has ended. The answer ends before the first of the `stop` strings;
// in a harmony answer, only text for the user is searched. Throw InputError if the request is refused.
Answer stream_raw(Engine& engine, GenerationRequest request, const std::vector<std::string>& stop,
                  const Listener& listener);
Answer stream_harmony(Engine& engine, const Tokenizer& tokenizer, GenerationRequest request,
                      const std::vector<std::string>& stop, const Listener& listener);

}  // namespace nibble::cli
