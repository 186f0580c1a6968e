// Compiles JSON Schema 2020-12, and the keyword names of older drafts, to a grammar of JSON texts
// (docs/structured-output.md lists the keywords). A keyword that restricts values but is not enforced is
// refused; an unknown format gives a warning; other members are ignored as annotations. Members come in the
// schema's order, undeclared ones last. White space is what models write: at most a space after a comma or
// colon, or a line break and up to 20 spaces or tabs before a member, an item, or the closing bracket.
#pragma once

#include "core/text/json_fwd.h"
#include "grammar/languages/schema/schema_options.h"
#include "grammar/program/grammar.h"

namespace nibble::grammar {

// Compiles a schema, which the caller may free afterwards. Throws an InputError with one line that names the
// keyword and its place ("schema: 'contains' at #/properties/list: this keyword is not supported; ..."), also
// for schemas that no value satisfies or that exceed limits.h.
Compiled compile_json_schema(const Json& schema, const SchemaOptions& options = {});

// Compiles the grammar of all JSON objects, for {"type": "json_object"}.
Compiled compile_json_object();

}  // namespace nibble::grammar
