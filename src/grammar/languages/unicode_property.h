// The characters of a Unicode property, as PCRE2 knows it: a general category ("L", "Nd") or a script ("Greek").
#pragma once

#include <string>

#include "grammar/automata/code_points.h"
#include "grammar/limits.h"

namespace nibble::grammar {

// Null if PCRE2 knows no property of this name. Found once in a process, which takes some milliseconds and kPropertyFuel of `fuel`, and
// kept. Thread-safe.
const CodePoints* unicode_property(const std::string& name, Fuel& fuel);

}  // namespace nibble::grammar
