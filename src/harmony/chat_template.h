// Compares a model's chat template with the released one. nibble does not run templates: harmony/render.h
// writes what the released one means. A fine-tune with another template may have been trained on prompts that
// render.h does not write.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nibble::harmony {

struct TemplateDifference {
  int line;          // the first line that differs, from 1; after the last line if the template is cut short
  std::string text;  // the differing line, without spaces at its end
};

// Returns nullopt if the template is that of openai/gpt-oss-20b or -120b in any revision, or of the bundled
// miniature. Spaces at the ends of lines, and empty lines at the end, do not count.
std::optional<TemplateDifference> difference_from_released(std::string_view chat_template);

}  // namespace nibble::harmony
