// Sums up what the assertions of one branch say together, by type of value.
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
  std::vector<Terms> first;   // of items 0, 1, ...
  std::optional<Terms> rest;  // nothing: there are no more
  uint32_t min{0}, max{kUnlimited};
  // An item behind so many others must fulfil these. Of several schemas that ask for one, it is the same item.
  Terms needed;
  size_t needed_from{0};
  const Json* needed_of{nullptr};  // a schema that asks for it, by this keyword
  std::string_view needed_by;
  uint32_t num_needed{0};
  const Json* unique{nullptr};  // the schema that asks for it
  uint32_t most() const;        // items, as far as the schema's face tells
};

struct ObjectFacts {
  std::vector<const Json*> sources;   // schemas with properties, patternProperties or additionalProperties
  std::vector<std::string> required;  // each once
  std::vector<std::string> absent;    // names that must not be there
  std::vector<std::pair<std::string, const Json*>>
      failing;  // a member that is there and does not fulfil the schema
  std::vector<Unevaluated> unevaluated;
  Terms names;  // propertyNames
  uint32_t min{0}, max{kUnlimited};
  const Json* min_schema{nullptr};
};

struct Facts {
  Types types{kAllTypes};
  std::optional<std::vector<const Json*>>
      values;  // of enum or const; of several, the shortest list. All terms are to be asked.
  const Json* values_of{nullptr};     // that list, where it is an enum
  std::vector<const Json*> excluded;  // values
  NumberFacts numbers;
  StringFacts strings;
  ArrayFacts arrays;
  ObjectFacts objects;
};

// Each schema speaks of items 0, 1, ... by its prefixItems or, behind those, by its items. Drafts before 2020-12 called the first "items"
// as well, and the others "additionalItems". Null: nothing is said.
const Json* first_items(const Json& schema);
const Json* further_items(const Json& schema);

void warn_once(std::vector<std::string>& warnings, const std::string& warning);

// `warnings` gets a line for each format that is not enforced, or not wholly.
Facts facts_of(const Branch& branch, const SchemaDocument& document, std::vector<std::string>& warnings);

}  // namespace nibble::grammar
