// JSON Schema 2020-12 (and what older drafts call otherwise) to a grammar of JSON texts. docs/structured-output.md lists the keywords.
//
// A keyword that would change what is valid and is not enforced is refused. Other words are annotations, and skipped; a format that is
// not known is a warning. Members come in the schema's order, those that no schema names last. Blanks are those that models write: one
// or none behind a comma or a colon, or a new line and up to 20 blanks in front of a member, an item, or the closing bracket.
#pragma once

#include "core/json_fwd.h"
#include "grammar/program/grammar.h"

namespace nibble::grammar {

using Json = nlohmann::ordered_json;  // the order of members is that of the text

struct SchemaOptions {
  // OpenAI's strict mode: an object that declares members and does not mention additionalProperties has no others.
  bool is_strict{false};
  // For the arguments of a tool, which are an object. A keyword that can't be enforced is dropped alone, with a warning that names it and
  // its place; the rest is enforced. More texts are accepted then, never fewer. No schema is refused.
  bool drops_unenforceable{false};
};

// The texts of values that fulfil the schema. The schema is not needed any more when this returns.
// Throws InputError, whose one line names the keyword and where it stands: "schema: 'contains' at #/properties/list: this keyword is not
// supported; ...". So it does for schemas that no value fulfils, and for those that take more than limits.h allows.
Compiled compile_json_schema(const Json& schema, const SchemaOptions& options = {});

// The texts of all JSON objects: what {"type": "json_object"} asks for.
Compiled compile_json_object();

}  // namespace nibble::grammar
