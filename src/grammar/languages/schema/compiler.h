// Compiles a schema's document to grammar nodes: one rule per set of schemas that a value must satisfy.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "grammar/languages/schema/branches.h"
#include "grammar/languages/schema/facts.h"
#include "grammar/languages/schema/schema_options.h"
#include "grammar/program/builder.h"
#include "grammar/program/grammar.h"

namespace nibble::grammar {

class SchemaCompiler {
 public:
  // `widened`: JSON pointers of schemas that have lost keywords.
  SchemaCompiler(const Json& schema, const SchemaOptions& options, const std::set<std::string>& widened = {});
  Compiled compile();

  // JSON pointers of schemas to simplify if compilation fails (widening.h):
  std::string dearest_place() const;     // the schema that took the most work
  std::string impossible_place() const;  // the deepest schema that no value satisfies
  uint64_t fuel_left() { return builder_.expressions().fuel().left(); }

 private:
  NodeId value(Terms terms);
  NodeId any_value();
  NodeId values_of(const Branch& branch);
  void leave_out(const Json& schema, std::string_view keyword);
  std::vector<Facts> beside_excluded(const Branch& branch, const Facts& facts, Types type);
  std::vector<const Json*> listed_values(const Branch& branch, const Facts& facts);

  // These functions are defined in schema/strings.cpp, numbers.cpp and containers.cpp.
  Expression regex(const StringFacts::Pattern& pattern);
  Expression texts_of(const Format& format);
  Expression texts_beside_others(const Format& format);
  void warn_of_formats(const StringFacts& facts, const std::vector<const Json*>& excluded);
  Expression text_expression(const StringFacts& facts, const std::vector<const Json*>& excluded);
  Expression with_lengths(const StringFacts& facts, Expression text);
  NodeId strings(const Facts& facts);
  Expression names_expression(const Terms& terms);
  Expression plain_number(Types types);
  Expression number_expression(const Facts& facts);
  Expression multiples(const NumberFacts::Multiple& multiple);
  NodeId arrays(const Branch& branch, const Facts& facts);
  GrammarBuilder::JsonArray::Needed needed_item(const ArrayFacts& arrays);
  NodeId objects(const Facts& facts);
  NodeId member(const ObjectFacts& facts, const std::string& name);
  Terms undeclared_terms(const ObjectFacts& facts, const std::vector<const Json*>& patterns) const;
  std::vector<GrammarBuilder::Undeclared> undeclared(const ObjectFacts& facts,
                                                     const std::vector<std::string>& names);
  bool is_closed(const ObjectFacts& facts) const;

  // Defined in schema/different_items.cpp.
  NodeId different_items(const Branch& branch, const ArrayFacts& arrays);
  std::optional<std::vector<Json>> few_values(const Terms& terms, size_t max, uint32_t depth);
  std::optional<std::vector<Json>> values_to_filter(const Branch& branch, uint32_t depth);
  std::optional<std::vector<Json>> few_arrays(const ArrayFacts& arrays, uint32_t depth);

  // Defined in schema/impossible.cpp.
  bool is_impossible(const Branch& branch, uint32_t depth);
  bool is_impossible(const Terms& terms, uint32_t depth);

  // The following are defined in schema/holds.cpp. They check whether a value satisfies a term.
  bool holds(const Json& value, const Term& term);
  // Returns whether holds() is true of every term. Also true if the result depends on a widened schema, which
  // has lost keywords.
  bool may_hold(const Json& value, const Terms& terms);
  bool holds(const Json& value, const Json& schema);
  bool all_keywords_hold(const Json& value, const Json& schema);
  bool keyword_holds(const Json& value, const Json& schema, std::string_view keyword, uint32_t index);
  bool number_holds(const Json& value, const Json& schema, std::string_view keyword);
  bool string_holds(const Json& value, const Json& schema, std::string_view keyword);
  bool array_holds(const Json& value, const Json& schema, std::string_view keyword);
  bool object_holds(const Json& value, const Json& schema, std::string_view keyword);
  bool matches(const std::string& text, Expression expression);
  bool matches_pattern(const std::string& text, const Json& schema, const std::string& regex);

  SchemaDocument document_;
  SchemaOptions options_;
  GrammarBuilder builder_;
  std::vector<std::string> warnings_;
  Branches branches_;
  std::map<Terms, NodeId> values_;
  std::vector<std::pair<Terms, NodeId>> open_;  // rules declared, but not yet defined
  std::optional<NodeId> any_value_;
  std::map<std::pair<std::string, bool>, Expression> patterns_;
  // Fuel spent on each list of terms, by the list's first schema.
  std::map<const Json*, uint64_t> work_;
  std::map<const Format*, Expression> formats_;
  uint32_t holds_depth_{0};
  bool has_met_widened_{false};  // whether holds() has reached a widened schema
  // The enum whose values are being filtered, or null. holds() need not search this enum for the value.
  const Json* enum_of_listed_{nullptr};
};

// Return the numbers within the bound, without exponent and, if `integers`, without fraction.
Expression numbers_at_least(Expressions& expressions, const Bound& bound, bool integers);
Expression numbers_at_most(Expressions& expressions, const Bound& bound, bool integers);

}  // namespace nibble::grammar
