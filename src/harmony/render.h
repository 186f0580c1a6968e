// Conversation to tokens, byte for byte and id for id as the official renderer does it.
#pragma once

#include <string>
#include <vector>

#include "core/token.h"
#include "harmony/message.h"
#include "text/tokenizer.h"

namespace nibble::harmony {

// Which analysis messages of finished turns are left out.
enum class DropAnalysis {
  kNone,
  kBeforeFirstFinal,  // the official library's rule, quirk included: analysis between two finals stays
  kBeforeLastFinal,   // the documented intent, and what we use: all rules agree for one finished turn
};

struct RenderOptions {
  DropAnalysis drop_analysis{DropAnalysis::kBeforeLastFinal};
  bool generation_prompt{true};  // ends in "<|start|>assistant", so that the model goes on
  bool training{false};          // a last message on final ends in <|return|>
};

struct Rendered {
  std::string text;             // what the ids decode to, for people
  std::vector<TokenId> tokens;  // text pieces are encoded with special-token recognition off
};

// Throws InputError where a message can't be rendered (a tool message without a name; a schema that is no JSON) or the
// tokenizer lacks a control token of harmony.
Rendered render(const Conversation& conversation, const Tokenizer& tokenizer, const RenderOptions& options);

}  // namespace nibble::harmony
