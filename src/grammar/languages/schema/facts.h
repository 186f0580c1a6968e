// The combined requirements of a branch's assertions, by the type of value.
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
  std::vector<Terms> first;   // terms of the items at 0, 1, ...
  std::optional<Terms> rest;  // terms of all further items; absent: no further items are allowed
  uint32_t min{0}, max{kUnlimited};
  // At least one item at index needed_from or later must satisfy all terms of `needed`.
  Terms needed;
  size_t needed_from{0};
  const Json* needed_of{nullptr};  // a schema that requires such an item, by its keyword needed_by
  std::string_view needed_by;
  uint32_t num_needed{0};
  const Json* unique{nullptr};  // a schema that requires unique items; null if no schema does
  // Returns the maximum number of items, as far as it follows without looking into nested schemas.
  uint32_t most() const;
};

struct ObjectFacts {
  std::vector<const Json*> sources;   // schemas with properties, patternProperties or additionalProperties
  std::vector<std::string> required;  // names of required members, each once
  std::vector<std::string> absent;    // names of members that must be absent
  // Members that must be present, each with a schema that its value must fail.
  std::vector<std::pair<std::string, const Json*>> failing;
  std::vector<Unevaluated> unevaluated;
  Terms names;  // terms for the names of members (propertyNames)
  uint32_t min{0}, max{kUnlimited};
  const Json* min_schema{nullptr};
};

struct Facts {
  Types types{kAllTypes};
  // Values of enum or const; the shortest list if several exist. Each must be checked against all terms.
  std::optional<std::vector<const Json*>> values;
  const Json* values_of{nullptr};     // the enum with these values; null for const
  std::vector<const Json*> excluded;  // values that must not occur
  NumberFacts numbers;
  StringFacts strings;
  ArrayFacts arrays;
  ObjectFacts objects;
};

// Return the requirements for items 0, 1, ... (prefixItems) and for further items (items); null if absent.
// Drafts before 2020-12 call these keywords "items" and "additionalItems".
const Json* first_items(const Json& schema);
const Json* further_items(const Json& schema);

void warn_once(std::vector<std::string>& warnings, const std::string& warning);

// `warnings` gets a line for each format that is not enforced, or not completely.
Facts facts_of(const Branch& branch, const SchemaDocument& document, std::vector<std::string>& warnings);

}  // namespace nibble::grammar
