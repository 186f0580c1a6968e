// Tokens to messages, as they come. Never throws on what a model says and never loses text: a malformed header is
// repaired by the rules in parse.cpp's first comment, and the message flagged.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/token.h"
#include "harmony/message.h"
#include "text/tokenizer.h"

namespace nibble::harmony {

struct ParsedMessage {
  Message message;                   // its text is everything said so far
  std::vector<std::string> repairs;  // what was malformed and what was made of it; empty: well-formed
  bool is_complete{false};           // its terminator (or the end) was seen
};

// What one token changed.
struct Delta {
  bool header_ended{false};  // the last message's header is now known: role, channel, recipient, content type
  std::string text;  // content that is now certain: valid UTF-8, no half characters, no control tokens
  bool message_ended{false};
};

class Parser {
 public:
  // `role`: preset for a completion, whose prompt already ended in "<|start|>assistant"; none for a whole conversation.
  Parser(const Tokenizer& tokenizer, std::optional<Role> role);
  Parser(Parser&&) noexcept;
  Parser& operator=(Parser&&) noexcept;
  ~Parser();

  Delta push(TokenId token);
  Delta finish();  // the stream has ended, well or not; pushing more is a bug

  // All messages so far; the last may be incomplete. Any split of a stream into pushes gives the same messages.
  const std::vector<ParsedMessage>& messages() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::harmony
