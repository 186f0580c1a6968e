#pragma once

namespace nibble::grammar {

// How to read what regex engines read in different ways: \d, \w, \s and the dot beyond ASCII.
enum class RegexReading {
  // The whole text must match, so `^` and `$` at the ends change nothing. The dot excludes only \n.
  kWhole,
  // Matches the texts in which every regex engine finds the expression: for JSON Schema's "pattern".
  kSearch,
  // Matches the texts in which any engine finds the expression: those that a pattern under "not" excludes.
  kSearchWide,
};

struct RegexOptions {
  RegexReading reading{RegexReading::kWhole};
  bool ignores_case{false};  // ASCII letters match in both cases
  bool dot_is_anything{false};
};

}  // namespace nibble::grammar
