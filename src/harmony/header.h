// Reads a message's header, the text between <|start|> and <|message|>, and repairs malformed headers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harmony/message.h"

namespace nibble::harmony {

// Header::text represents the two control tokens that a header may contain as single bytes that never occur
// in UTF-8, so ordinary text can't be mistaken for them.
inline constexpr char kChannelMark{'\xFF'};
inline constexpr char kConstrainMark{'\xFE'};

struct Header {
  std::string text;                // valid UTF-8, plus the two marks above
  std::optional<Role> role;        // set if the prompt ended in <|start|> and this role
  Role speaker{Role::kAssistant};  // the role to assume if the header has none
  bool has_start{false};           // <|start|> was seen, or the prompt ended in it
  // The header ended in <|message|>. If false, it was cut off, and `text` may contain the message's text.
  bool has_message{false};
};

// Returns true if `channel_and_more`, which starts with a channel mark, contains a word that can't be part of
// a header. Then <|message|> is missing before that word, and another channel mark starts another message.
bool holds_text(std::string_view channel_and_more);

// Returns true if a header that the end of the stream cut off may be only a header, without text: it names a
// recipient, or all its words are names and there are not more of them than a header may have.
bool may_go_on(const Header& header);

// Returns the message that the header starts. Words that are not part of a header become its text. Never
// throws. Appends a line to `repairs` for each fault; the first comment of parse.cpp lists the rules.
Message read_header(const Header& header, std::vector<std::string>& repairs);

}  // namespace nibble::harmony
