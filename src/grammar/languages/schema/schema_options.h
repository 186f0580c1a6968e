#pragma once

namespace nibble::grammar {

struct SchemaOptions {
  // OpenAI's strict mode: an object with "properties" has no other members, unless the schema has
  // additionalProperties.
  bool is_strict{false};
  // Keywords that can't be enforced are dropped, with a warning that names their place, instead of refusing
  // the schema. More texts are then accepted, never fewer. For the arguments of a tool, which are an object.
  bool drops_unenforceable{false};
};

}  // namespace nibble::grammar
