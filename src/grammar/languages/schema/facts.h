// The combined assertions of one branch, by type of value.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "grammar/languages/schema/branches.h"
#include "grammar/languages/schema/decimal.h"
#include "grammar/languages/schema/formats.h"
#include "grammar/languages/schema/unevaluated.h"

namespace nibble::grammar {

struct Bound {
  Decimal value;
  bool is_exclusive{false};
};

struct NumberFacts {
  std::optional<Bound> min, max;
  struct Multiple {
    const Json* schema;
    Decimal of;
    bool is_negated;
  };
  std::vector<Multiple> multiples;
};

struct StringFacts {
  uint32_t min_length{0}, max_length{kUnlimited};
  struct Pattern {
    const Json* schema;
    std::string_view keyword;
    std::string regex;
    bool is_negated;
  };
  std::vector<Pattern> patterns;
  std::vector<const Format*> formats, failing_formats;
};

struct ArrayFacts {
  std::vector<Terms> first;   // terms of items 0, 1, ...
  std::optional<Terms> rest;  // absent: no further items
  uint32_t min{0}, max{kUnlimited};
  // One item after the first needed_from items must satisfy all of `needed`.
  Terms needed;
  size_t needed_from{0};
  const Json* needed_of{nullptr};  // a schema that requires it, by keyword needed_by
  std::string_view needed_by;
  uint32_t num_needed{0};
  const Json* unique{nullptr};  // the schema that requires unique items
  // Maximum number of items, judged by the schemas' top level.
  uint32_t most() const;
};

struct ObjectFacts {
  std::vector<const Json*> sources;   // schemas with properties, patternProperties or additionalProperties
  std::vector<std::string> required;  // unique
  std::vector<std::string> absent;    // names of members that must be absent
  // Members that must be present and fail the schema.
  std::vector<std::pair<std::string, const Json*>> failing;
  std::vector<Unevaluated> unevaluated;
  Terms names;  // propertyNames
  uint32_t min{0}, max{kUnlimited};
  const Json* min_schema{nullptr};
};

struct Facts {
  Types types{kAllTypes};
  // Values of enum or const, of several lists the shortest. Each must still be checked against all terms.
  std::optional<std::vector<const Json*>> values;
  const Json* values_of{nullptr};     // that list if it is an enum
  std::vector<const Json*> excluded;  // values that must not occur
  NumberFacts numbers;
  StringFacts strings;
  ArrayFacts arrays;
  ObjectFacts objects;
};

// What a schema says of items 0, 1, ... (prefixItems) and of those after them (items), or null. Drafts before
// 2020-12 called these keywords "items" and "additionalItems".
const Json* first_items(const Json& schema);
const Json* further_items(const Json& schema);

void warn_once(std::vector<std::string>& warnings, const std::string& warning);

// `warnings` gets a line for each format that is not enforced, or only partly.
Facts facts_of(const Branch& branch, const SchemaDocument& document, std::vector<std::string>& warnings);

}  // namespace nibble::grammar
