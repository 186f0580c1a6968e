// Reads the content of messages in the form of any chat API: a text, or a list of typed parts.
//
// Texts, refusals, search results, and documents that hold text are read. The model reads nothing else. In a message a picture or another
// file is refused, because the message is about it. A tool's result keeps its text: a note takes the place of the picture, and the field's
// record names it, because the program that made the result does not know that the model reads text only.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "harmony/field.h"

namespace nibble::harmony {

struct ContentForm {
  bool is_result{false};         // of a tool
  std::string_view separator{};  // between parts
  std::string_view accepted;     // the types that an error names
};

inline constexpr std::string_view kImageNote{"[an image that can't be shown]"};

// Throws InputError.
std::string content_text(const Field& content, const ContentForm& form);
std::string part_text(const Field& part, const ContentForm& form);

// The reasoning that a message of the assistant gives back, under any of its names: reasoning, reasoning_content, thinking, and the lists
// reasoning_details (OpenRouter) and thinking_blocks (LiteLLM). The first that is not empty counts.
std::string message_reasoning(const Field& message);

}  // namespace nibble::harmony
