// Grammars in Lark's language, as OpenAI's custom tools accept them (Codex's apply_patch is one):
//   start: line+                       rules have lower-case names; the whole text derives from `start`
//   line: "+" TEXT? LF -> added        (an alias names a node of a tree; it has no effect here)
//   TEXT: /[^\n]+/                     terminals have upper-case names, and do not refer to rules
//   %import common.LF                  the terminals of Lark's common grammar
//   %ignore " "                        may come before and after every terminal of a rule
// Supported: literals "..." and "..."i, ranges "a".."z", /regular expressions/ with flags i and s, comments
// after // or #, and ( ) [ ] | ? * + ~m ~m..n {m} {m,n}. Any alternative may be empty; names may contain
// hyphens. Unlike in Lark, terminals need not match the longest text; priorities have no effect. Refused:
// templates, %declare, %override, %extend, %json, %regex, tokens (<|name|>), attributes of rules, lookaround.
#pragma once

#include <string>
#include <string_view>

#include "grammar/program/grammar.h"

namespace nibble::grammar {

// Throws InputError, with the line if known, if the grammar has a mistake, uses a refused feature, has no
// text, or exceeds limits.h. Returns no warnings. With an `argument`, the text is a JSON object with one
// member of this name, a string whose value derives from `start`.
Compiled compile_lark(std::string_view text, const std::string& argument = {});

// Compiles vLLM's `grammar`: EBNF if it contains "::=", otherwise Lark.
Compiled compile_ebnf_or_lark(std::string_view text);

}  // namespace nibble::grammar
