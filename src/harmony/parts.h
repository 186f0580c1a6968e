// Reads message content in the form of any chat API: a text, or a list of typed parts.
//
// Texts, refusals, search results, and documents that contain text are read; the model reads nothing else. In
// a message, an image or another file is refused, because the message is about it. A tool result keeps its
// text: a note replaces the image, and the field's record names it, because the program that made the result
// does not know that the model reads only text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "harmony/field.h"

namespace nibble::harmony {

struct ContentForm {
  bool is_result{false};         // content of a tool result
  std::string_view separator{};  // inserted between parts
  std::string_view accepted;     // the types that an error message names
};

inline constexpr std::string_view kImageNote{"[an image that can't be shown]"};

// Both throw InputError.
std::string content_text(const Field& content, const ContentForm& form);
std::string part_text(const Field& part, const ContentForm& form);

// Returns the reasoning that an assistant message passes back, under any of its names: reasoning,
// reasoning_content, thinking, and the lists reasoning_details (OpenRouter) and thinking_blocks (LiteLLM).
// The first that is not empty is used.
std::string message_reasoning(const Field& message);

}  // namespace nibble::harmony
