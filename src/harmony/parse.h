// Parses a stream of tokens to messages. No output of a model makes it throw or lose text: a malformed header is repaired by
// the rules in parse.cpp's first comment, and the repair is recorded in the message. A header is not text: one that the end of
// the stream cuts off makes no message, since half of a name may be another name.
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
  Message message;                   // its text grows until it is complete
  std::vector<std::string> repairs;  // faults and how they were repaired; empty: the message is well-formed
  bool is_complete{false};           // its terminator or the end of the stream was seen
  bool has_cut_header{false};        // its header did not end in <|message|>
  bool ends_in_call{false};          // its terminator is <|call|>
};

// The change that one token made.
struct Delta {
  bool header_ended{false};  // role, channel, recipient and content type of the last message are now known
  std::string text;          // text that is now certain: valid UTF-8 without control tokens
  bool message_ended{false};
};

class Parser {
 public:
  // `role` is set for a completion, whose prompt ended in "<|start|>assistant", and empty for a whole conversation.
  Parser(const Tokenizer& tokenizer, std::optional<Role> role);
  Parser(Parser&&) noexcept;
  Parser& operator=(Parser&&) noexcept;
  ~Parser();

  Delta push(TokenId token);
  Delta finish();  // ends the stream, which may be incomplete; to push more is a bug

  // All messages so far; the last may be incomplete. Any split of a stream into pushes gives the same messages.
  const std::vector<ParsedMessage>& messages() const;

  // The header that the end of the stream cut off, with its control tokens; empty: none.
  const std::string& unfinished_header() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::harmony
