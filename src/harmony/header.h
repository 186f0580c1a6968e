// Reads a message's header, the text between <|start|> and <|message|>, and repairs malformed ones.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harmony/message.h"

namespace nibble::harmony {

// In Header::text the two control tokens that a header may hold are written as single bytes that UTF-8 never uses, so that
// no text can be mistaken for them.
inline constexpr char kChannelMark{'\xFF'};
inline constexpr char kConstrainMark{'\xFE'};

struct Header {
  std::string text;                // valid UTF-8 and the two marks
  std::optional<Role> role;        // if set, the prompt ended in this role
  Role speaker{Role::kAssistant};  // the role to assume if the header has none
  bool has_start{false};           // <|start|> was seen, or the prompt ended in it
  bool has_message{false};         // it ended in <|message|>; else it was cut off, and may hold the text
};

// True if words that can't be part of a header follow the channel mark with which `channel_and_more` begins. Then
// <|message|> is missing before them, and another channel mark begins another message.
bool holds_text(std::string_view channel_and_more);

// True if a header that the end of the stream cut off may have been no more than a header: it names a recipient, or has no
// words but those that a header may have.
bool may_go_on(const Header& header);

// Makes the message that the header begins; words that are not part of a header become its text. Never throws. Appends a
// line to `repairs` for each fault; parse.cpp's first comment has the rules.
Message read_header(const Header& header, std::vector<std::string>& repairs);

}  // namespace nibble::harmony
