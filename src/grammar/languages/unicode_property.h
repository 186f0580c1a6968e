// The characters of a Unicode property, as PCRE2 knows it: a general category ("L", "Nd") or a script ("Greek").
#pragma once

#include <string>

#include "grammar/automata/code_points.h"

namespace nibble::grammar {

// Null if PCRE2 knows no property of this name. Found once (some milliseconds) and kept. Thread-safe.
const CodePoints* unicode_property(const std::string& name);

}  // namespace nibble::grammar
