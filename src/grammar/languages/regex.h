// Regular expressions as text, in the dialect that all engines of the field read in the same way.
//
//   characters, `.`, [sets], \d \w \s \D \W \S, \p{Category}, escapes; groups with or without a name;
//   |, * + ? {m} {m,} {m,n}, lazy or not; ^ and $
//
// Lookaround, backreferences, \b, flags inside the expression and possessive quantifiers are refused:
// automata do not support them.
#pragma once

#include <string>
#include <string_view>

#include "grammar/automata/expressions.h"
#include "grammar/program/grammar.h"

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

// Returns the expression of the texts that match. Throws InputError if `regex` has a mistake or uses a
// refused feature; the message begins with `origin`.
Expression regex_expression(Expressions& expressions, std::string_view regex, const RegexOptions& options,
                            const std::string& origin);

// Compiles the texts that match as a whole. Throws InputError as regex_expression() does, and also if no text
// matches or if limits.h is exceeded. `argument`: see lark.h.
Compiled compile_regex(std::string_view regex, const std::string& argument = {});
// Compiles a choice of fixed texts, in UTF-8; duplicates count once. Throws InputError if `texts` is empty or
// exceeds limits.h.
Compiled compile_choice(const std::vector<std::string>& texts);

}  // namespace nibble::grammar
