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
  std::function<bool()> wants_to_stop;  // polled at every event, and twenty times a second
  std::function<void()> on_wait{};      // called twenty times a second until the first token; may be empty
};

// stream_raw() and stream_harmony() return when the request has ended, or 0.1 s after wants_to_stop()
// returned true. The answer ends before the first of the `stop` strings; in a harmony answer, only text for
// the user is searched for them. Both functions throw InputError if the request is refused.
Answer stream_raw(Engine& engine, GenerationRequest request, const std::vector<std::string>& stop,
                  const Listener& listener);
Answer stream_harmony(Engine& engine, const Tokenizer& tokenizer, GenerationRequest request,
                      const std::vector<std::string>& stop, const Listener& listener);

}  // namespace nibble::cli
