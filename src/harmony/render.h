// Renders a conversation to tokens, with the same bytes and ids as the official renderer.
#pragma once

#include <string>
#include <vector>

#include "core/tokens/token.h"
#include "harmony/message.h"
#include "text/tokenizer.h"

namespace nibble::harmony {

// Rule by which analysis messages (reasoning) of finished turns are left out.
enum class DropAnalysis {
  kNone,
  // The official library's rule: drops analysis before the first final message, keeps all later analysis.
  kBeforeFirstFinal,
  // The documented intent, and nibble's default: drops all analysis before the last final message.
  kBeforeLastFinal,
};

struct RenderOptions {
  DropAnalysis drop_analysis{DropAnalysis::kBeforeLastFinal};
  // Whether to append "<|start|>assistant", after which the model generates.
  bool generation_prompt{true};
  // Whether a last message on channel final ends in <|return|>, as in training data.
  bool training{false};
};

struct Rendered {
  std::string text;             // the text that `tokens` decode to
  std::vector<TokenId> tokens;  // encoded without recognising special tokens
};

// Throws InputError if a message can't be rendered (a tool message without a name, a schema that is not JSON)
// or if the vocabulary lacks a control token of harmony.
Rendered render(const Conversation& conversation, const Tokenizer& tokenizer, const RenderOptions& options);

}  // namespace nibble::harmony
