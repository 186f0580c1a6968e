// What stands between <|start|> and <|message|>, and what is made of it where it is malformed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harmony/message.h"

namespace nibble::harmony {

// In a header's text the two control tokens that it may hold are single bytes that UTF-8 never uses, so that no
// spelling of a name can be taken for them.
inline constexpr char kChannelMark{'\xFF'};
inline constexpr char kConstrainMark{'\xFE'};

struct Header {
  std::string text;                // valid UTF-8 and the two marks
  std::optional<Role> role;        // known beforehand: the prompt ended in it
  Role speaker{Role::kAssistant};  // who speaks where the header does not say
  bool has_start{false};           // <|start|> was seen, or stood in the prompt
  bool has_message{false};         // it ended in <|message|>; else it was cut off, and may hold the text
};

// Whether words that are no part of a header follow a channel's mark: `channel_and_more` begins with it. Then
// <|message|> is missing before them, and another channel begins another message.
bool holds_text(std::string_view channel_and_more);

// The message that the header begins: its text is what was no part of a header. Never throws. Appends to `repairs` what
// was malformed; the rules are in parse.cpp's first comment.
Message read_header(const Header& header, std::vector<std::string>& repairs);

}  // namespace nibble::harmony
