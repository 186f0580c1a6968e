// Grammars in llama.cpp's GBNF and in xgrammar's EBNF:
//   root ::= greeting " " name+        rules; the whole text derives from `root`
//   name ::= [A-Z] [a-z]{1,20} | "\"" [^"\n]* "\""
// Supported: literals and sets with \n \r \t \\ \" \[ \] \- \xNN \uNNNN \UNNNNNNNN, `.`, groups, comments
// after #, and | * + ? {m} {m,} {m,n}. A GBNF rule ends with its line, unless a group is open, or a | ends
// the line or begins the next one. An EBNF rule ends where the next begins. Rules may be recursive. Refused:
// tokens (<name>, <[7]>), lookahead, xgrammar's functions (TagDispatch(...)) and attributes of rules.
#pragma once

#include <string_view>

#include "grammar/program/grammar.h"

namespace nibble::grammar {

// Both functions throw InputError, with the line if known, if the grammar has a mistake, uses a refused
// feature, has no text, or exceeds limits.h. They return no warnings.
Compiled compile_gbnf(std::string_view text);
Compiled compile_ebnf(std::string_view text);

}  // namespace nibble::grammar
