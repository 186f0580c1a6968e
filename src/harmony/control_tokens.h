// The tokens that frame harmony messages, by their ids in one vocabulary.
#pragma once

#include <string_view>
#include <vector>

#include "core/token.h"
#include "text/tokenizer.h"

namespace nibble::harmony {

inline constexpr std::string_view kConstrain{"<|constrain|>"};  // also the beginning of a content type

struct ControlTokens {
  // Throws InputError, naming the token, where the vocabulary lacks one: it is then not of a harmony model.
  explicit ControlTokens(const Tokenizer& tokenizer);

  TokenId start;      // <|start|>      opens a message: its header follows
  TokenId channel;    // <|channel|>    in a header, before the channel
  TokenId constrain;  // <|constrain|>  in a header, begins the content type
  TokenId message;    // <|message|>    ends the header: the content follows
  TokenId end;        // <|end|>        ends a message
  TokenId call;       // <|call|>       ends a call of a tool: sampling stops
  TokenId done;       // <|return|>     ends the answer: sampling stops

  bool is_terminator(TokenId token) const { return token == end || token == call || token == done; }
};

// Where sampling stops: <|return|>, <|call|>, and <|endoftext|> where there is one (generation_config.json of gpt-oss
// names these three). <|end|> is none: after its thoughts the model goes on with the next message.
std::vector<TokenId> stop_tokens(const Tokenizer& tokenizer);

}  // namespace nibble::harmony
