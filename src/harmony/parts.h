// Reads message content in the form of any chat API: a text, or a list of typed parts. Texts, refusals,
// search results, and documents with text are read. In a message, an image or another file is refused,
// because the message makes no sense without it. In a tool result a note replaces an image, because tools do
// not know that the model reads only text; the image is reported as ignored.
#pragma once

#include <string>
#include <string_view>

#include "harmony/field.h"

namespace nibble::harmony {

struct ContentForm {
  bool is_result{false};         // whether this is the content of a tool result
  std::string_view separator{};  // put between two parts
  std::string_view accepted;     // part types that an error message lists as accepted
};

inline constexpr std::string_view kImageNote{"[an image that can't be shown]"};

// Both functions throw InputError.
std::string content_text(const Field& content, const ContentForm& form);
std::string part_text(const Field& part, const ContentForm& form);

// Returns the reasoning that an assistant message passes back: the first non-empty member of reasoning,
// reasoning_content, thinking, and the lists reasoning_details (OpenRouter) and thinking_blocks (LiteLLM).
std::string message_reasoning(const Field& message);

}  // namespace nibble::harmony
