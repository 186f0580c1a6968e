// Reads a message's header, the text between <|start|> and <|message|>, and repairs malformed headers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harmony/message.h"

namespace nibble::harmony {

// Bytes that stand for the two control tokens inside a header. They never occur in UTF-8.
inline constexpr char kChannelMark{'\xFF'};
inline constexpr char kConstrainMark{'\xFE'};

struct Header {
  std::string text;                // valid UTF-8, plus the two marks above
  std::optional<Role> role;        // ROLE, if the prompt ended in "<|start|>ROLE"
  Role speaker{Role::kAssistant};  // the role to assume if neither `role` nor the text gives one
  bool has_start{false};           // whether <|start|> was seen or ended the prompt
  // If false, the header was cut off before <|message|>, and `text` may contain the message's text.
  bool has_message{false};
};

// Whether the text, which starts with a channel mark, has a word that can't be part of a header. If so,
// <|message|> is missing before that word, and a later channel mark begins a new message.
bool holds_text(std::string_view channel_and_more);

// Whether a header that the end of the stream cut off may be the start of a well-formed header, without words
// of the message's text. True if the header names a recipient, or if all its words may be names and are not
// too many for a header.
bool may_go_on(const Header& header);

// Reads the header into a new message; unknown words become the message's text. Never throws. Appends a line
// to `repairs` for each fault, by the rules in the first comment of parse.cpp.
Message read_header(const Header& header, std::vector<std::string>& repairs);

}  // namespace nibble::harmony
