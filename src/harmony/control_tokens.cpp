#include "harmony/control_tokens.h"

#include "core/errors/error.h"

namespace nibble::harmony {

namespace {
TokenId id_of(const Tokenizer& tokenizer, std::string_view name) {
  if (const auto id = tokenizer.special(name)) return *id;
  throw InputError(
      "the vocabulary has no token {}, which harmony messages need; use the tokenizer of a gpt-oss model",
      name);
}
}  // namespace

ControlTokens::ControlTokens(const Tokenizer& tokenizer)
    : start(id_of(tokenizer, "<|start|>")),
      channel(id_of(tokenizer, "<|channel|>")),
      constrain(id_of(tokenizer, kConstrain)),
      message(id_of(tokenizer, "<|message|>")),
      end(id_of(tokenizer, "<|end|>")),
      call(id_of(tokenizer, "<|call|>")),
      done(id_of(tokenizer, "<|return|>")) {}

std::vector<TokenId> stop_tokens(const Tokenizer& tokenizer) {
  const ControlTokens control(tokenizer);
  std::vector<TokenId> stops{control.done, control.call};
  if (const auto end_of_text = tokenizer.special("<|endoftext|>")) stops.push_back(*end_of_text);
  return stops;
}

}  // namespace nibble::harmony
