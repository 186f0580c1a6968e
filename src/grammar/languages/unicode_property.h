// Characters of a Unicode property that PCRE2 knows: a general category ("L", "Nd") or a script ("Greek").
#pragma once

#include <string>

#include "grammar/automata/code_points.h"
#include "grammar/limits.h"

namespace nibble::grammar {

// Returns null if PCRE2 does not know the property. The first use of a property in a process takes
// milliseconds and kPropertyFuel of `fuel`; later uses return the stored result. Thread-safe.
const CodePoints* unicode_property(const std::string& name, Fuel& fuel);

}  // namespace nibble::grammar
