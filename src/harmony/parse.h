// Parses a stream of tokens into messages. No model output makes it throw or lose text: malformed headers are
// repaired by the rules in the first comment of parse.cpp, and each repair is recorded in its message. A
// header that the end of the stream cuts off makes no message, because half a name could be another name.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/tokens/token.h"
#include "harmony/message.h"
#include "text/tokenizer.h"

namespace nibble::harmony {

struct ParsedMessage {
  Message message;                   // `text` grows until is_complete
  std::vector<std::string> repairs;  // faults and their repairs; empty if well-formed
  bool is_complete{false};           // whether its terminator or the stream's end was seen
  bool has_cut_header{false};        // whether its header did not end in <|message|>
  bool ends_in_call{false};          // whether its terminator is <|call|>
};

struct Delta {
  bool header_ended{false};  // role, channel, recipient and content type of the last message are final
  std::string text;          // text added to the last message: valid UTF-8 without control tokens
  bool message_ended{false};
};

class Parser {
 public:
  // `role`: role of an answer whose prompt ended in "<|start|>ROLE"; nullopt for a whole conversation.
  Parser(const Tokenizer& tokenizer, std::optional<Role> role);
  Parser(Parser&&) noexcept;
  Parser& operator=(Parser&&) noexcept;
  ~Parser();

  Delta push(TokenId token);
  Delta finish();  // ends the stream, perhaps within a message; push() must not follow

  // Returns all messages so far. The last one may be incomplete.
  const std::vector<ParsedMessage>& messages() const;

  // Returns the header that the end of the stream cut off, with its control tokens; empty if none was cut
  // off.
  const std::string& unfinished_header() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::harmony
