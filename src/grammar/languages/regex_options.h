#pragma once

namespace nibble::grammar {

// How to read an expression where engines differ: \d, \w, \s and the dot beyond ASCII.
enum class RegexReading {
  // The whole text must match, so `^` and `$` at its ends change nothing. The dot excludes only \n.
  kWhole,
  // The texts in which every engine finds the expression: for JSON Schema's "pattern".
  kSearch,
  // The texts in which at least one engine finds it: what a pattern under "not" excludes.
  kSearchWide,
};

struct RegexOptions {
  RegexReading reading{RegexReading::kWhole};
  bool ignores_case{false};  // of ASCII letters
  bool dot_is_anything{false};
};

}  // namespace nibble::grammar
