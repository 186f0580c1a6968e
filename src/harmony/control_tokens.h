// Ids of the control tokens that frame harmony messages.
#pragma once

#include <string_view>
#include <vector>

#include "core/tokens/token.h"
#include "text/tokenizer.h"

namespace nibble::harmony {

inline constexpr std::string_view kConstrain{"<|constrain|>"};  // may begin a content type

struct ControlTokens {
  // Throws InputError that names the missing token if the vocabulary is not a harmony model's.
  explicit ControlTokens(const Tokenizer& tokenizer);

  TokenId start;      // <|start|>      opens a message, at its header
  TokenId channel;    // <|channel|>    in a header, before the channel
  TokenId constrain;  // <|constrain|>  in a header, begins the content type
  TokenId message;    // <|message|>    ends the header; the content follows
  TokenId end;        // <|end|>        ends a message
  TokenId call;       // <|call|>       ends a call of a tool: sampling stops
  TokenId done;       // <|return|>     ends the answer: sampling stops

  bool is_terminator(TokenId token) const { return token == end || token == call || token == done; }
};

// Returns the tokens at which sampling stops: <|return|>, <|call|>, and <|endoftext|> if the vocabulary has
// it (gpt-oss: generation_config.json). Sampling goes on after <|end|>, which also ends the model's
// reasoning.
std::vector<TokenId> stop_tokens(const Tokenizer& tokenizer);

}  // namespace nibble::harmony
