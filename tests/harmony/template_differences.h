// The places where the checkpoint's chat template differs from the official renderer, which nibble follows.
#pragma once

#include <string>
#include <string_view>

#include "tests/harmony/vocabulary.h"

namespace nibble::harmony {

inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// Converts the template's text for `messages` to the text of the official renderer.
inline std::string as_official_renderer(std::string text, const Json& messages) {
  text = replaced(text, "\n\n<|end|>", "<|end|>");  // the template ends instructions with a blank line,
  text =
      // the template writes a comma after a default
      replaced(text, "// default: celsius,\n", "// default: celsius\n");
  text = replaced(text, "commentary json<|message|>", "commentary <|constrain|>json<|message|>");
  for (const Json& message : messages)  // the template also writes a tool's result as a JSON string
    if (message["role"] == "tool")
      text = replaced(text, message["content"].dump(), message["content"].get<std::string>());
  return text;
}

}  // namespace nibble::harmony
