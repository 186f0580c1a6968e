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
#include <vector>

#include "grammar/automata/expressions.h"
#include "grammar/languages/regex_options.h"
#include "grammar/program/grammar.h"

namespace nibble::grammar {

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
