// Grammars in Lark's language, as OpenAI's custom tools take them (Codex's apply_patch is one).
//
//   start: line+                       rules have lower-case names; the text is a `start`
//   line: "+" TEXT? LF -> added        (an alias names a node of a tree, and says nothing here)
//   TEXT: /[^\n]+/                     terminals have upper-case names, and do not refer to rules
//   %import common.LF                  the terminals of Lark's common grammar
//   %ignore " "                        may stand before and behind every terminal of a rule
//
// Literals "..." and "..."i, ranges "a".."z", /regular expressions/ with flags i and s, ( ) [ ] | ? * + ~m ~m..n {m} {m,n}, comments after
// // or #. An alternative may be empty, also the first one. Names may have hyphens inside.
// The texts are those of the grammar itself: there is no lexer beside it that would take the longest terminal first, and priorities
// say nothing. Templates, %declare, %override, %extend, %json, %regex, tokens (<|name|>), attributes of rules, and lookaround in
// regular expressions are refused.
#pragma once

#include <string>
#include <string_view>

#include "grammar/program/grammar.h"

namespace nibble::grammar {

// The texts of `start`. Throws InputError, with the line where there is one, if the grammar has a mistake, has something that is refused,
// or has no text, and above limits.h. It gives no warnings. With an `argument` the texts are those of a JSON object whose only member is
// a string of this name for a text of `start`.
Compiled compile_lark(std::string_view text, const std::string& argument = {});

// vLLM's `grammar` may be of either kind: it is Lark if no line has "::=".
Compiled compile_ebnf_or_lark(std::string_view text);

}  // namespace nibble::grammar
