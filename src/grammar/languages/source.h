// Says what a text is to be, in any of the languages that clients write it in.
#pragma once

#include <string>

#include "grammar/program/grammar.h"

namespace nibble::grammar {

enum class Language {
  kJsonObject,  // any JSON object; `text` is empty
  kJsonSchema,  // as JSON
  kRegex,       // which the whole text matches
  kChoice,      // one of these: a JSON list of texts
  kGbnf,        // llama.cpp's
  kEbnf,        // xgrammar's
  kEbnfOrLark,  // vLLM's: whichever it looks like
  kLark,
};

struct Source {
  Language language{Language::kJsonObject};
  std::string text;
  bool is_strict{false};            // of a schema: SchemaOptions
  bool drops_unenforceable{false};  // the same
  // A text of kRegex or kLark may be this argument of a call, the only member of a JSON object. Empty: it stands by itself.
  std::string argument{};
  friend auto operator<=>(const Source&, const Source&) = default;
};

// Throws InputError that says what is wrong with it and where.
Compiled compile(const Source& source);

}  // namespace nibble::grammar
