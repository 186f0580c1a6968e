// Renders a conversation to tokens, with the same bytes and ids as the official renderer.
#pragma once

#include <string>
#include <vector>

#include "core/token.h"
#include "harmony/message.h"
#include "text/tokenizer.h"

namespace nibble::harmony {

// Rules for leaving out analysis messages (reasoning) of finished turns.
enum class DropAnalysis {
  kNone,
  kBeforeFirstFinal,  // the official library's rule, in which analysis between two final messages stays
  kBeforeLastFinal,   // the documented intent, and our default; the rules agree if one turn is finished
};

struct RenderOptions {
  DropAnalysis drop_analysis{DropAnalysis::kBeforeLastFinal};
  bool generation_prompt{true};  // append "<|start|>assistant", after which the model generates
  bool training{false};          // end a last message on final with <|return|>
};

struct Rendered {
  std::string text;             // the text that the ids decode to
  std::vector<TokenId> tokens;  // text is encoded with special-token recognition off
};

// Throws InputError if a message can't be rendered (a tool message without a name, a schema that is not JSON) or the
// tokenizer lacks a control token of harmony.
Rendered render(const Conversation& conversation, const Tokenizer& tokenizer, const RenderOptions& options);

}  // namespace nibble::harmony
