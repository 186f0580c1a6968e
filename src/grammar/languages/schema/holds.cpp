// Checks a value against a schema, keyword by keyword. Used to filter the values of an enum.
#include <algorithm>

#include "core/text/word_list.h"
#include "grammar/automata/trie.h"
#include "grammar/languages/schema/compiler.h"
#include "grammar/languages/schema/formats.h"

namespace nibble::grammar {
namespace {

bool is_divided(const Decimal& value, const Decimal& divisor) {
  // Long division of whole numbers: both are counted in units of the last decimal that either of them has.
  const size_t num_decimals = std::max(value.fraction.size(), divisor.fraction.size());
  const auto digits = [&](const Decimal& a) {
    return a.integer + a.fraction + std::string(num_decimals - a.fraction.size(), '0');
  };
  const std::string by = digits(divisor);
  if (by.size() > 18) return false;
  const uint64_t unit = std::stoull(by);
  uint64_t remainder = 0;
  for (const char digit : digits(value))
    remainder = static_cast<uint64_t>(
        (static_cast<unsigned __int128>(remainder) * 10 + static_cast<uint64_t>(digit - '0')) % unit);
  return remainder == 0;
}

size_t num_characters(const std::string& text) { return Trie::code_points_of(text).size(); }

}  // namespace

bool SchemaCompiler::holds(const Json& value, const Term& term) {
  switch (term.sense) {
    case Term::Sense::kHolds:
      return holds(value, *term.schema);
    case Term::Sense::kFails:
      return !holds(value, *term.schema);
    case Term::Sense::kKeywordFails:
      return !keyword_holds(value, *term.schema, term.keyword, term.index);
    case Term::Sense::kHasMember:
      return SchemaDocument::find(value, term.name) != nullptr;
    case Term::Sense::kLacksMember:
      return SchemaDocument::find(value, term.name) == nullptr;
    case Term::Sense::kMemberFails: {
      const Json* member = SchemaDocument::find(value, term.name);
      return member != nullptr && !holds(*member, *term.schema);
    }
    case Term::Sense::kUnknown:
      break;
  }
  return false;
}

bool SchemaCompiler::may_hold(const Json& value, const Terms& terms) {
  return std::ranges::all_of(terms, [&](const Term& term) {
    has_met_widened_ = false;
    return holds(value, term) || has_met_widened_;
  });
}

bool SchemaCompiler::holds(const Json& value, const Json& schema) {
  if (schema.is_boolean()) return schema.get<bool>();
  has_met_widened_ |= document_.is_widened(schema);
  if (holds_depth_ > kMaxDepth) document_.refuse(schema, "$ref", "references form an endless chain");
  builder_.expressions().fuel().spend(4);
  ++holds_depth_;
  if (document_.is_reference_alone(schema)) {
    const bool result = holds(value, document_.target(schema));
    --holds_depth_;
    return result;
  }
  branches_.check_keywords(schema);
  const bool result = all_keywords_hold(value, schema);
  --holds_depth_;
  return result;
}

// Checks the listed keywords. Other keywords assert nothing, or are checked together with a listed one.
bool SchemaCompiler::all_keywords_hold(const Json& value, const Json& schema) {
  constexpr std::string_view kKeywords{
      "type enum const $ref allOf anyOf oneOf not if minimum maximum exclusiveMinimum exclusiveMaximum "
      "multipleOf minLength maxLength pattern format items prefixItems minItems maxItems uniqueItems "
      "contains required properties patternProperties additionalProperties propertyNames minProperties "
      "dependentRequired dependentSchemas dependencies unevaluatedItems unevaluatedProperties maxProperties"};
  bool result = true;
  for (const auto& member : schema.items()) {
    const std::string& keyword = member.key();
    if (!result || !has_word(kKeywords, keyword)) continue;
    if (keyword == "required" || keyword == "properties") {
      const size_t num = member.value().is_structured() ? member.value().size() : 0;
      for (uint32_t i = 0; i < num; ++i) result = result && keyword_holds(value, schema, keyword, i);
    } else {
      result = keyword_holds(value, schema, keyword, 0);
    }
  }
  return result;
}

bool SchemaCompiler::keyword_holds(const Json& value, const Json& schema, std::string_view keyword,
                                   uint32_t index) {
  const Json& of = *SchemaDocument::find(schema, keyword);
  const auto fulfils = [&](const Json& member) { return holds(value, member); };
  if (keyword == "type") return types_of(document_, schema) & type_of_value(value);
  const auto is_equal = [&](const Json& other) {
    builder_.expressions().fuel().spend();
    return is_same_value(value, other);
  };
  if (keyword == "enum" && &of == enum_of_listed_) return true;
  if (keyword == "enum") return std::any_of(document_.list(schema, keyword)->begin(), of.end(), is_equal);
  if (keyword == "const") return is_equal(of);
  if (keyword == "$ref") return holds(value, document_.target(schema));
  if (keyword == "allOf") return std::all_of(document_.list(schema, keyword)->begin(), of.end(), fulfils);
  if (keyword == "anyOf") return std::any_of(document_.list(schema, keyword)->begin(), of.end(), fulfils);
  if (keyword == "oneOf")
    return std::count_if(document_.list(schema, keyword)->begin(), of.end(), fulfils) == 1;
  if (keyword == "not") return !holds(value, of);
  if (keyword == "if") {
    const Json* then = SchemaDocument::find(schema, holds(value, of) ? "then" : "else");
    return then == nullptr || holds(value, *then);
  }
  if (value.is_number()) return number_holds(value, schema, keyword);
  if (value.is_string()) return string_holds(value, schema, keyword);
  if (value.is_array()) return array_holds(value, schema, keyword);
  if (value.is_object()) {
    if (keyword == "required")
      return of[index].is_string() && SchemaDocument::find(value, of[index].get_ref<const std::string&>());
    if (keyword == "properties") {
      const auto property =
          std::next(document_.object(schema, keyword)->begin(), static_cast<ptrdiff_t>(index));
      const Json* member = SchemaDocument::find(value, property.key());
      return member == nullptr || holds(*member, *property);
    }
    return object_holds(value, schema, keyword);
  }
  return true;
}

bool SchemaCompiler::number_holds(const Json& value, const Json& schema, std::string_view keyword) {
  const Json& of = *SchemaDocument::find(schema, keyword);
  if (!of.is_number()) return true;
  const auto order = [&] { return compare(Decimal::of(value), Decimal::of(of)); };
  const auto is_exclusive = [&](std::string_view draft_4) {
    const Json* flag = SchemaDocument::find(schema, draft_4);
    return flag != nullptr && flag->is_boolean() && flag->get<bool>();
  };
  if (keyword == "minimum") return is_exclusive("exclusiveMinimum") ? order() > 0 : order() >= 0;
  if (keyword == "maximum") return is_exclusive("exclusiveMaximum") ? order() < 0 : order() <= 0;
  if (keyword == "exclusiveMinimum") return order() > 0;
  if (keyword == "exclusiveMaximum") return order() < 0;
  if (keyword == "multipleOf") return is_divided(Decimal::of(value), Decimal::of(of));
  return true;
}

bool SchemaCompiler::matches(const std::string& text, Expression expression) {
  Automaton& automaton = builder_.automaton_of(expression, Encoding::kUtf8);
  uint32_t state = Automaton::kStart;
  for (const char byte : text) state = automaton.next(state, static_cast<uint8_t>(byte));
  return automaton.accepts(state);
}

bool SchemaCompiler::matches_pattern(const std::string& text, const Json& schema,
                                     const std::string& pattern) {
  return matches(text, regex({&schema, "patternProperties", pattern, false}));
}

bool SchemaCompiler::string_holds(const Json& value, const Json& schema, std::string_view keyword) {
  const std::string& text = value.get_ref<const std::string&>();
  if (keyword == "minLength") return num_characters(text) >= document_.count(schema, keyword);
  if (keyword == "maxLength") return num_characters(text) <= document_.count(schema, keyword);
  if (keyword == "pattern")
    return matches(text,
                   regex({&schema, keyword, document_.text(schema, keyword)->get<std::string>(), false}));
  if (keyword == "format")
    if (const Format* format = find_format(document_.text(schema, keyword)->get_ref<const std::string&>()))
      return matches(text, texts_of(*format));
  return true;
}

bool SchemaCompiler::array_holds(const Json& value, const Json& schema, std::string_view keyword) {
  const Json& of = *SchemaDocument::find(schema, keyword);
  if (keyword == "unevaluatedItems" && !SchemaDocument::is_true(of))
    document_.refuse(schema, keyword, "this keyword is not supported next to arrays in an enum or const");
  if (keyword == "contains")
    return std::ranges::any_of(value, [&](const Json& item) { return holds(item, of); });
  if (keyword == "minItems") return value.size() >= document_.count(schema, keyword);
  if (keyword == "maxItems") return value.size() <= document_.count(schema, keyword);
  if (keyword == "uniqueItems") {
    if (!document_.flag(schema, keyword)) return true;
    for (size_t i = 0; i < value.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (is_same_value(value[i], value[j])) return false;
    return true;
  }
  if (keyword != "items" && keyword != "prefixItems" && keyword != "additionalItems") return true;
  const Json *first = first_items(schema), *rest = further_items(schema);
  const size_t num_first = first != nullptr && first->is_array() ? first->size() : 0;
  for (size_t i = 0; i < value.size(); ++i) {
    const Json* item = i < num_first ? &(*first)[i] : rest;
    if (item != nullptr && !item->is_array() && !holds(value[i], *item)) return false;
  }
  return true;
}

bool SchemaCompiler::object_holds(const Json& value, const Json& schema, std::string_view keyword) {
  if (keyword.starts_with("depend")) {
    const auto has = [&](const Json& name) {
      return name.is_string() && SchemaDocument::find(value, name.get_ref<const std::string&>());
    };
    for (const auto& [name, entry] : document_.object(schema, keyword)->items()) {
      if (SchemaDocument::find(value, name) == nullptr) continue;
      if (entry.is_array() ? !std::ranges::all_of(entry, has) : !holds(value, entry)) return false;
    }
    return true;
  }
  if (keyword == "unevaluatedProperties" && !SchemaDocument::is_true(*SchemaDocument::find(schema, keyword)))
    document_.refuse(schema, keyword, "this keyword is not supported next to objects in an enum or const");
  if (keyword == "minProperties") return value.size() >= document_.count(schema, keyword);
  if (keyword == "maxProperties") return value.size() <= document_.count(schema, keyword);
  for (const auto& [name, member] : value.items()) {
    if (keyword == "propertyNames" && !holds(Json(name), *SchemaDocument::find(schema, keyword)))
      return false;
    if (keyword != "patternProperties" && keyword != "additionalProperties") continue;
    const Json* properties = SchemaDocument::find(schema, "properties");
    bool is_declared = properties != nullptr && SchemaDocument::find(*properties, name);
    if (const Json* patterns = document_.object(schema, "patternProperties"))
      for (const auto& [pattern, of] : patterns->items())
        if (matches_pattern(name, schema, pattern)) {
          is_declared = true;
          if (!holds(member, of)) return false;
        }
    if (!is_declared && keyword == "additionalProperties" &&
        !holds(member, *SchemaDocument::find(schema, keyword)))
      return false;
  }
  return true;
}

}  // namespace nibble::grammar
