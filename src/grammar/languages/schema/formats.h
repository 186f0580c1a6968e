// The formats of strings that are enforced, as regular expressions: a text that is generated is valid wherever the format is checked,
// while rare valid forms (a comment in an address, a leap second) are left out.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nibble::grammar {

// Nothing: no format of this name is known.
std::optional<std::string> format_regex(std::string_view name);

}  // namespace nibble::grammar
