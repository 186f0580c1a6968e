// A requirement on a text, in one of the languages that clients use.
#pragma once

#include <string>

#include "grammar/program/grammar.h"

namespace nibble::grammar {

enum class Language {
  kJsonObject,  // any JSON object; `text` is empty
  kJsonSchema,  // `text` is the schema, as JSON text
  kRegex,       // the whole answer matches the expression
  kChoice,      // the answer is one of the texts in a JSON list
  kGbnf,        // llama.cpp's GBNF
  kEbnf,        // xgrammar's EBNF
  kEbnfOrLark,  // vLLM's `grammar`: EBNF if it has "::=", else Lark
  kLark,
};

struct Source {
  Language language{Language::kJsonObject};
  std::string text;
  bool is_strict{false};            // kJsonSchema only: see SchemaOptions
  bool drops_unenforceable{false};  // kJsonSchema only: see SchemaOptions
  // kRegex, kLark: if set, the text is the value of this argument, the only member of a call's JSON object.
  std::string argument{};
  friend auto operator<=>(const Source&, const Source&) = default;
};

// Throws InputError that says what is wrong and where.
Compiled compile(const Source& source);

}  // namespace nibble::grammar
