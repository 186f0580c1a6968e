#pragma once

namespace nibble::grammar {

// How to read \d, \w, \s and the dot beyond ASCII: engines differ, and text should match in all of them.
enum class RegexReading {
  // The whole text matches: `^` and `$` at the ends change nothing. The dot excludes only the line feed.
  kWhole,
  // Texts in which every engine finds the expression: JSON Schema's "pattern".
  kSearch,
  // Texts in which at least one engine finds the expression: what a pattern under "not" excludes.
  kSearchWide,
};

struct RegexOptions {
  RegexReading reading{RegexReading::kWhole};
  bool ignores_case{false};  // for ASCII letters
  bool dot_is_anything{false};
};

}  // namespace nibble::grammar
