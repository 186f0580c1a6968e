// Grammars in llama.cpp's GBNF and in xgrammar's EBNF.
//
//   root ::= greeting " " name+        rules; the text is a `root`
//   name ::= [A-Z] [a-z]{1,20} | "\"" [^"\n]* "\""
//
// Literals and sets with \n \r \t \\ \" \[ \] \- \xNN \uNNNN \UNNNNNNNN, `.`, groups, |, * + ? {m} {m,} {m,n}, and comments behind #.
// In GBNF a rule ends with its line, unless a group is open or the line ends or begins with |; in EBNF it ends where the next begins.
// Recursion of any kind is allowed, also at a rule's beginning. Tokens (<name>, <[7]>), lookahead, and xgrammar's functions
// (TagDispatch(...) and others) and attributes of rules are refused.
#pragma once

#include <string_view>

#include "grammar/program/grammar.h"

namespace nibble::grammar {

// The texts of `root`. Throw InputError, with the line where there is one, if the grammar has a mistake, has something that is refused, or
// has no text, and above limits.h. Neither gives warnings.
Compiled compile_gbnf(std::string_view text);
Compiled compile_ebnf(std::string_view text);

}  // namespace nibble::grammar
