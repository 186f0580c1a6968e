// Strings of a schema: schema/compiler.h.
#include <algorithm>

#include "grammar/languages/one_line.h"
#include "grammar/languages/regex.h"
#include "grammar/languages/schema/compiler.h"

namespace nibble::grammar {

// A pattern that must not match is read as widely as any engine does.
Expression SchemaCompiler::regex(const StringFacts::Pattern& pattern) {
  const auto [known, is_new] =
      patterns_.emplace(std::pair{pattern.regex, pattern.is_negated}, Expression::kNothing);
  if (!is_new) return known->second;
  Expressions& e = builder_.expressions();
  const auto reading = pattern.is_negated ? RegexReading::kSearchWide : RegexReading::kSearch;
  const std::string place = document_.path_of(*pattern.schema);
  try {
    const Expression found =
        regex_expression(e, pattern.regex, {.reading = reading},
                         fmt::format("schema: '{}' at #{}", pattern.keyword, one_line(place)));
    return known->second = pattern.is_negated ? e.complement(found) : found;
  } catch (const TooMuchWork&) {
    throw;
  } catch (const InputError& error) {
    throw Refusal(place, pattern.keyword, error.what());
  }
}

Expression SchemaCompiler::text_expression(const StringFacts& facts,
                                           const std::vector<const Json*>& excluded) {
  Expressions& e = builder_.expressions();
  std::vector<Expression> parts;
  for (const StringFacts::Pattern& pattern : facts.patterns) parts.push_back(regex(pattern));
  std::vector<std::string> texts;
  for (const Json* value : excluded)
    if (value->is_string()) texts.push_back(value->get<std::string>());
  if (!texts.empty()) parts.push_back(e.complement(e.any_text_of(std::move(texts))));
  return e.all_of(parts);
}

NodeId SchemaCompiler::strings(const Facts& facts) {
  const Expression text = text_expression(facts.strings, facts.excluded);
  const auto [min, max] = std::pair{facts.strings.min_length, facts.strings.max_length};
  const bool is_free = text == Expression::kAnything && min == 0 && max == kUnlimited;
  return builder_.json_string(text, is_free ? Encoding::kJsonStringFree : Encoding::kJsonString, {min, max});
}

// Names that fulfil the terms, their lengths included.
Expression SchemaCompiler::names_expression(const Terms& terms) {
  Expressions& e = builder_.expressions();
  std::vector<Expression> choices;
  for (const Branch& branch : branches_.of(terms)) {
    const Facts facts = facts_of(branch, document_, warnings_);
    if ((facts.types & kStringType) == 0) continue;
    if (facts.values) {
      std::vector<std::string> texts;
      for (const Json* value : listed_values(branch, facts))
        if (value->is_string()) texts.push_back(value->get<std::string>());
      choices.push_back(e.any_text_of(std::move(texts)));
      continue;
    }
    Expression text = text_expression(facts.strings, facts.excluded);
    if (facts.strings.min_length > 0 || facts.strings.max_length != kUnlimited) {
      if (facts.strings.min_length > facts.strings.max_length) continue;
      text = e.all_of(text,
                      e.repeat(e.set(CodePoints::all()), facts.strings.min_length, facts.strings.max_length));
    }
    choices.push_back(text);
  }
  return e.any_of(choices);
}

}  // namespace nibble::grammar
