// From a schema's document to a grammar's nodes: a rule for each set of schemas that a value must fulfil together, made once, so that
// recursion and shared definitions cost nothing more.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "grammar/languages/schema/branches.h"
#include "grammar/languages/schema/facts.h"
#include "grammar/program/builder.h"

namespace nibble::grammar {

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& schema, const SchemaOptions& options);
  Compiled compile();

 private:
  // The node of values that fulfil all terms.
  NodeId value(Terms terms);
  NodeId any_value();
  NodeId values_of(const Branch& branch);
  std::vector<const Json*> listed_values(const Branch& branch, const Facts& facts);

  // schema/strings.cpp, numbers.cpp, containers.cpp
  Expression regex(const StringFacts::Pattern& pattern);
  Expression texts_of(const Format& format);
  Expression text_expression(const StringFacts& facts, const std::vector<const Json*>& excluded);
  Expression with_lengths(const StringFacts& facts, Expression text);
  NodeId strings(const Facts& facts);
  Expression names_expression(const Terms& terms);
  Expression plain_number(Types types);
  Expression number_expression(const Facts& facts);
  Expression multiples(const NumberFacts::Multiple& multiple);
  NodeId arrays(const Facts& facts);
  NodeId objects(const Facts& facts);
  NodeId member(const ObjectFacts& facts, const std::string& name);
  Terms undeclared_terms(const ObjectFacts& facts, const std::vector<const Json*>& patterns) const;
  std::vector<GrammarBuilder::Undeclared> undeclared(const ObjectFacts& facts,
                                                     const std::vector<std::string>& names);
  bool is_closed(const ObjectFacts& facts) const;

  // schema/impossible.cpp
  bool is_impossible(const Branch& branch, uint32_t depth);
  bool is_impossible(const Terms& terms, uint32_t depth);

  // schema/holds.cpp finds by looking at a value if it fulfils a term.
  bool holds(const Json& value, const Term& term);
  bool holds(const Json& value, const Json& schema);
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
  Branches branches_;
  std::vector<std::string> warnings_;
  std::map<Terms, NodeId> values_;
  std::vector<std::pair<Terms, NodeId>> open_;  // declared, not yet defined
  std::optional<NodeId> any_value_;
  std::map<std::pair<std::string, bool>, Expression> patterns_;
  std::map<const Format*, Expression> formats_;
  uint32_t holds_depth_{0};
  const Json* enum_of_listed_{nullptr};  // while its values are filtered: each is in it
};

// Numbers as JSON writes them without an exponent, of an order: schema/number_range.cpp. `integers`: without a fraction.
Expression numbers_at_least(Expressions& expressions, const Bound& bound, bool integers);
Expression numbers_at_most(Expressions& expressions, const Bound& bound, bool integers);

}  // namespace nibble::grammar
