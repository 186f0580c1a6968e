// Parses a stream of tokens into messages. No model output makes it throw or lose text: malformed headers are
// repaired by the rules in the first comment of parse.cpp, and the message records this. A header that the
// end of the stream cuts off makes no message, because half a name could be another name.
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
  std::vector<std::string> repairs;  // faults and their repairs; empty if well-formed
  bool is_complete{false};           // its terminator or the stream's end was seen
  bool has_cut_header{false};        // its header did not end in <|message|>
  bool ends_in_call{false};          // its terminator is <|call|>
};

struct Delta {
  bool header_ended{false};  // role, channel, recipient and content type of the last message are final
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
  Delta finish();  // ends the stream, perhaps incomplete; push() must not follow

  // All messages so far, the last perhaps incomplete, however the stream is split into pushes.
  const std::vector<ParsedMessage>& messages() const;

  // The header that the end of the stream cut off, with its control tokens, or empty.
  const std::string& unfinished_header() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::harmony
