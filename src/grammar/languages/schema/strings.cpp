#include <algorithm>

#include "grammar/languages/one_line.h"
#include "grammar/languages/regex.h"
#include "grammar/languages/schema/compiler.h"

namespace nibble::grammar {
namespace {

// Whether the only restriction on the text is a single format.
bool is_one_format(const StringFacts& facts, const std::vector<const Json*>& excluded) {
  return facts.formats.size() == 1 && facts.failing_formats.empty() && facts.patterns.empty() &&
         facts.min_length == 0 && facts.max_length == kUnlimited &&
         std::ranges::none_of(excluded, [](const Json* value) { return value->is_string(); });
}

}  // namespace

// Returns the texts that match the pattern; if `is_negated`, the texts in which no regex engine finds it.
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

Expression SchemaCompiler::texts_of(const Format& format) {
  const auto [known, is_new] = formats_.emplace(&format, Expression::kNothing);
  if (is_new) known->second = format.texts(builder_.expressions());
  return known->second;
}

Expression SchemaCompiler::texts_beside_others(const Format& format) {
  return format.beside_others != nullptr ? format.beside_others(builder_.expressions()) : texts_of(format);
}

Expression SchemaCompiler::text_expression(const StringFacts& facts,
                                           const std::vector<const Json*>& excluded) {
  Expressions& e = builder_.expressions();
  if (is_one_format(facts, excluded)) return texts_of(*facts.formats[0]);
  std::vector<Expression> parts;
  for (const StringFacts::Pattern& pattern : facts.patterns) parts.push_back(regex(pattern));
  for (const Format* format : facts.formats) parts.push_back(texts_beside_others(*format));
  for (const Format* format : facts.failing_formats)
    parts.push_back(e.complement(texts_beside_others(*format)));
  std::vector<std::string> texts;
  for (const Json* value : excluded)
    if (value->is_string()) texts.push_back(value->get<std::string>());
  if (!texts.empty()) parts.push_back(e.complement(e.any_text_of(std::move(texts))));
  return e.all_of(parts);
}

void SchemaCompiler::warn_of_formats(const StringFacts& facts, const std::vector<const Json*>& excluded) {
  if (is_one_format(facts, excluded)) return;
  for (const auto* formats : {&facts.formats, &facts.failing_formats})
    for (const Format* format : *formats)
      if (format->beside_others != nullptr)
        warn_once(warnings_, fmt::format("next to other keywords, the format '{}' is enforced except for {}",
                                         format->name, format->not_checked_beside_others));
}

// Builds the limits on the length into the automaton. This takes many states, but they are created only when
// reached. A counter would be cheaper, but needs a list of all states (automata/remaining_lengths.h).
Expression SchemaCompiler::with_lengths(const StringFacts& facts, Expression text) {
  if (facts.min_length == 0 && facts.max_length == kUnlimited) return text;
  if (facts.min_length > facts.max_length) return Expression::kNothing;
  Expressions& e = builder_.expressions();
  return e.all_of(text, e.repeat(e.set(CodePoints::all()), facts.min_length, facts.max_length));
}

NodeId SchemaCompiler::strings(const Facts& facts) {
  const StringFacts& strings = facts.strings;
  warn_of_formats(strings, facts.excluded);
  const Expression text = text_expression(strings, facts.excluded);
  const bool is_combined = !strings.formats.empty() && strings.formats.size() + strings.patterns.size() > 1;
  if (is_combined || !strings.failing_formats.empty() ||
      std::ranges::any_of(strings.formats, &Format::has_many_states))
    return builder_.json_string(with_lengths(strings, text), Encoding::kJsonString, {});
  const auto [min, max] = std::pair{strings.min_length, strings.max_length};
  const bool is_free = text == Expression::kAnything && min == 0 && max == kUnlimited;
  return builder_.json_string(text, is_free ? Encoding::kJsonStringFree : Encoding::kJsonString, {min, max});
}

// Returns the member names that satisfy the terms, including their limits on the length.
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
    warn_of_formats(facts.strings, facts.excluded);
    choices.push_back(with_lengths(facts.strings, text_expression(facts.strings, facts.excluded)));
  }
  return e.any_of(choices);
}

}  // namespace nibble::grammar
