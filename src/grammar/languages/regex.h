// Regular expressions as text. Supported is the syntax that all common engines read in the same way:
//   characters, `.`, [sets], \d \w \s \D \W \S, \p{Category}, escapes; groups with or without a name;
//   |, * + ? {m} {m,} {m,n}, lazy or not; ^ and $
// Refused, as automata lack them: lookaround, backreferences, \b, inline flags, possessive quantifiers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "grammar/automata/expressions.h"
#include "grammar/languages/regex_options.h"
#include "grammar/program/grammar.h"

namespace nibble::grammar {

// Throws InputError if `regex` has a mistake or uses a refused feature; the message begins with `origin`.
Expression regex_expression(Expressions& expressions, std::string_view regex, const RegexOptions& options,
                            const std::string& origin);

// Like regex_expression(); also throws if no text matches or limits.h is exceeded. `argument`: see lark.h.
Compiled compile_regex(std::string_view regex, const std::string& argument = {});
// Compiles a choice of UTF-8 texts; duplicates count once. Throws InputError if `texts` is empty or exceeds
// limits.h.
Compiled compile_choice(const std::vector<std::string>& texts);

}  // namespace nibble::grammar
