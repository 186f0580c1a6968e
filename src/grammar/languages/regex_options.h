// How a regular expression is read.
#pragma once

namespace nibble::grammar {

// How to read the constructs about which engines differ: \d, \w, \s and the dot beyond ASCII. Generated text
// should match in all engines.
enum class RegexReading {
  // The whole text matches: `^` and `$` at the ends change nothing. The dot is any character except a line
  // feed.
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
