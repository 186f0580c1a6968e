// How a schema is enforced.
#pragma once

namespace nibble::grammar {

struct SchemaOptions {
  // OpenAI's strict mode: an object that declares members and has no additionalProperties has no other
  // members.
  bool is_strict{false};
  // For the arguments of a tool, which are an object. Only a keyword that can't be enforced is dropped, with
  // a warning that names it and its place; the rest is enforced. More texts are then accepted, never fewer.
  // No schema is refused.
  bool drops_unenforceable{false};
};

}  // namespace nibble::grammar
