// Compares any text with the released chat template. If they differ, the result names a line of the text, or
// the line after its end, and quotes text of that line.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "core/errors/check.h"
#include "harmony/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto difference = harmony::difference_from_released(text);
  if (!difference) return 0;
  const auto num_lines = std::ranges::count(text, '\n') + 1;
  NIBBLE_CHECK(difference->line >= 1 && difference->line <= num_lines + 1, "{}", difference->line);
  NIBBLE_CHECK(text.find(difference->text) != std::string_view::npos, "{}", difference->text);
  NIBBLE_CHECK(difference->text.find('\n') == std::string::npos, "{}", difference->line);
  return 0;
}
