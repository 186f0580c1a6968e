// JSON Schema 2020-12 (and what older drafts call otherwise) to a grammar of JSON texts.
//
// Enforced: type, enum, const; $ref within the document; allOf, anyOf, oneOf, not, if/then/else where they can be, by looking at what
// they say; numbers' bounds and multipleOf; strings' length, pattern and the formats of formats.h; items, prefixItems, minItems,
// maxItems; properties, required, patternProperties, additionalProperties, propertyNames, minProperties, maxProperties. Members come in
// the schema's order, undeclared ones last. A keyword that would change what is valid and is not enforced is refused: an InputError
// names it and its place. Other words are annotations, and skipped. An unknown format is a warning.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "grammar/grammar.h"

namespace nibble::grammar {

using Json = nlohmann::ordered_json;  // the order of members is that of the text

struct SchemaOptions {
  // OpenAI's strict mode: an object that declares members and does not mention additionalProperties has no others.
  bool is_strict{false};
};

Compiled compile_json_schema(const Json& schema, const SchemaOptions& options = {});

// Any JSON object: {"type": "json_object"}.
Compiled compile_json_object();

}  // namespace nibble::grammar
