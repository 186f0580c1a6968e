// Parses a stream of tokens into messages. No model output makes it throw or lose text: a malformed header is
// repaired by the rules in the first comment of parse.cpp, and the message records the repair. A header is
// not text: a header that the end of the stream cuts off makes no message, because half a name could be
// another name.
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
  Message message;                   // its text grows until is_complete
  std::vector<std::string> repairs;  // faults and their repairs; empty if the message is well-formed
  bool is_complete{false};           // its terminator or the end of the stream was seen
  bool has_cut_header{false};        // its header did not end in <|message|>
  bool ends_in_call{false};          // its terminator is <|call|>
};

// What one token changed.
struct Delta {
  bool header_ended{false};  // role, channel, recipient and content type of the last message are now final
  std::string text;          // text that is now certain: valid UTF-8 without control tokens
  bool message_ended{false};
};

class Parser {
 public:
  // `role`: for a completion, whose prompt ended in "<|start|>assistant"; empty for a whole conversation.
  Parser(const Tokenizer& tokenizer, std::optional<Role> role);
  Parser(Parser&&) noexcept;
  Parser& operator=(Parser&&) noexcept;
  ~Parser();

  Delta push(TokenId token);
  Delta finish();  // ends the stream, which may be incomplete; push() must not be called after it

  // All messages so far; the last may be incomplete. The result does not depend on how the stream is split
  // into pushes.
  const std::vector<ParsedMessage>& messages() const;

  // The header that the end of the stream cut off, with its control tokens; empty if there was none.
  const std::string& unfinished_header() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::harmony
