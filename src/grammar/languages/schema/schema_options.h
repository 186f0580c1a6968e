#pragma once

namespace nibble::grammar {

struct SchemaOptions {
  // OpenAI's strict mode: objects that declare members are closed unless they have additionalProperties.
  bool is_strict{false};
  // For a tool's arguments, which are an object: keywords that can't be enforced are dropped with a warning
  // that names their place, instead of refusing the schema. More texts are then accepted, never fewer.
  bool drops_unenforceable{false};
};

}  // namespace nibble::grammar
