// Renders a conversation to tokens, with the same bytes and ids as the official renderer.
#pragma once

#include <string>
#include <vector>

#include "core/token.h"
#include "harmony/message.h"
#include "text/tokenizer.h"

namespace nibble::harmony {

// Which analysis messages (reasoning) of finished turns are left out.
enum class DropAnalysis {
  kNone,
  // The official library's rule. It keeps analysis between two final messages.
  kBeforeFirstFinal,
  // The documented intent, and our default. The rules agree if only one turn is finished.
  kBeforeLastFinal,
};

struct RenderOptions {
  DropAnalysis drop_analysis{DropAnalysis::kBeforeLastFinal};
  // Append "<|start|>assistant", after which the model generates.
  bool generation_prompt{true};
  // End a last message on channel final with <|return|>.
  bool training{false};
};

struct Rendered {
  std::string text;             // what the ids decode to
  std::vector<TokenId> tokens;  // encoded without recognising special tokens
};

// Throws InputError if a message can't be rendered (a tool message without a name, a schema that is not JSON)
// or if the tokenizer lacks a control token of harmony.
Rendered render(const Conversation& conversation, const Tokenizer& tokenizer, const RenderOptions& options);

}  // namespace nibble::harmony
