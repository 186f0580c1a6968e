// Grammars in llama.cpp's GBNF and in xgrammar's EBNF.
//
//   root ::= greeting " " name+        rules; the text is a `root`
//   name ::= [A-Z] [a-z]{1,20} | "\"" [^"\n]* "\""
//
// Supported: literals and sets with \n \r \t \\ \" \[ \] \- \xNN \uNNNN \UNNNNNNNN, `.`, groups, comments
// after #, and | * + ? {m} {m,} {m,n}. In GBNF a rule ends with its line, unless a group is open or a | is at
// the end of the line or at the start of the next; in EBNF a rule ends where the next begins. Any recursion
// is allowed, including left recursion. Refused: tokens (<name>, <[7]>), lookahead, and xgrammar's functions
// (TagDispatch(...) and others) and attributes of rules.
#pragma once

#include <string_view>

#include "grammar/program/grammar.h"

namespace nibble::grammar {

// Compile the texts of `root`. Throw InputError, with the line if known, if the grammar has a mistake, uses a
// refused feature, has no text, or exceeds limits.h. Neither gives warnings.
Compiled compile_gbnf(std::string_view text);
Compiled compile_ebnf(std::string_view text);

}  // namespace nibble::grammar
