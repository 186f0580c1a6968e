// Regular expressions as text: the dialect that all engines of the field understand alike.
//
//   characters, `.`, [sets], \d \w \s \D \W \S, \p{Category}, escapes; groups without or with a name; |, * + ? {m} {m,} {m,n}, lazily
//   or not; ^ and $
//
// Lookaround, backreferences, \b, flags inside the expression and possessive quantifiers are refused: no automaton knows them.
#pragma once

#include <string>
#include <string_view>

#include "grammar/automata/expressions.h"
#include "grammar/program/grammar.h"

namespace nibble::grammar {

// Engines differ in what \d, \w, \s and the dot mean beyond ASCII. A text that is generated should match in all of them.
enum class RegexReading {
  kWhole,   // the whole text: `^` and `$` at the ends say nothing more. The dot is anything but a line feed.
  kSearch,  // texts in which every engine finds the expression: JSON Schema's "pattern"
  kSearchWide,  // texts in which some engine finds it: what a pattern under "not" excludes
};

struct RegexOptions {
  RegexReading reading{RegexReading::kWhole};
  bool ignores_case{false};  // of ASCII letters
  bool dot_is_anything{false};
};

// The expression of the texts that match. Throws InputError, whose message begins with `origin`, if `regex` is none, or needs what is
// refused.
Expression regex_expression(Expressions& expressions, std::string_view regex, const RegexOptions& options,
                            const std::string& origin);

// The texts that match as a whole. Throws InputError as above, if no text matches, and above limits.h. `argument` as in lark.h.
Compiled compile_regex(std::string_view regex, const std::string& argument = {});
// One of these texts, of any bytes that are UTF-8; equal ones count once. Throws InputError if there is none, and above limits.h.
Compiled compile_choice(const std::vector<std::string>& texts);

}  // namespace nibble::grammar
