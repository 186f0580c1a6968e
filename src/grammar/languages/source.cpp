#include "grammar/languages/source.h"

#include <vector>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/text/json.h"
#include "grammar/languages/gbnf.h"
#include "grammar/languages/lark.h"
#include "grammar/languages/regex.h"
#include "grammar/languages/schema/json_schema.h"
#include "grammar/limits.h"

namespace nibble::grammar {
namespace {

// Parses untrusted JSON. Refuses nesting that is too deep for later code, which recurses.
Json parse(const std::string& text) {
  if (text.size() > kMaxSourceBytes)
    throw InputError("the schema has {} bytes; at most {} are accepted", text.size(), kMaxSourceBytes);
  bool is_too_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    is_too_deep |= depth > static_cast<int>(kMaxDepth);
    return !is_too_deep;
  };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (is_too_deep) throw InputError("the schema is nested more than {} levels deep", kMaxDepth);
  if (json.is_discarded()) throw InputError("the schema is not valid JSON");
  return json;
}

std::vector<std::string> texts_of(const std::string& list) {
  std::vector<std::string> texts;
  const Json json = parse(list);
  const auto refuse = [] { throw InputError("choices must be a non-empty list of strings"); };
  if (!json.is_array() || json.empty()) refuse();
  for (const Json& text : json) {
    if (!text.is_string()) refuse();
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

}  // namespace

Compiled compile(const Source& source) {
  switch (source.language) {
    case Language::kJsonObject:
      return compile_json_object();
    case Language::kJsonSchema:
      return compile_json_schema(parse(source.text), {.is_strict = source.is_strict,
                                                      .drops_unenforceable = source.drops_unenforceable});
    case Language::kRegex:
      return compile_regex(source.text, source.argument);
    case Language::kChoice:
      return compile_choice(texts_of(source.text));
    case Language::kGbnf:
      return compile_gbnf(source.text);
    case Language::kEbnf:
      return compile_ebnf(source.text);
    case Language::kEbnfOrLark:
      return compile_ebnf_or_lark(source.text);
    case Language::kLark:
      return compile_lark(source.text, source.argument);
  }
  NIBBLE_CHECK(false, "language {}", static_cast<int>(source.language));
}

}  // namespace nibble::grammar
