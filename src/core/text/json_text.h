// Writes JSON as text. Does not throw on bytes that are not UTF-8, as dump() of the library does.
#pragma once

#include <string>

#include "core/text/json_fwd.h"

namespace nibble {

enum class JsonForm {
  kLine,       // one line without spaces
  kAsciiLine,  // the same; characters outside ASCII are escaped, so the text can be cut after any byte
  kIndented,   // a line for each member, indented by 2 spaces for each level
};

// Returns the text of `value`, without a newline at the end. Bytes that are not UTF-8 become U+FFFD. Numbers
// that JSON does not have (infinity, NaN) become null.
std::string json_text(const nlohmann::json& value, JsonForm form = JsonForm::kLine);
std::string json_text(const nlohmann::ordered_json& value, JsonForm form = JsonForm::kLine);

}  // namespace nibble
