// Compiles the input as a JSON Schema, in strict mode if its size is odd. Either the schema is refused, or
// its token masks pass check_masks() along a pseudo-random text. As the schema of a tool's arguments it is
// never refused.

#include "core/errors/error.h"
#include "core/text/json.h"
#include "grammar/languages/schema/json_schema.h"
#include "tests/fuzz/grammar_masks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble::grammar;
  const auto schema = nibble::Json::parse(data, data + size, nullptr, false);
  if (schema.is_discarded()) return 0;
  try {
    check_masks(compile_json_schema(schema, {.is_strict = size % 2 == 1}), size);
  } catch (const nibble::InputError&) {
  }
  const Compiled arguments = compile_json_schema(schema, {.drops_unenforceable = true});
  try {
    check_masks(arguments, size);
  } catch (const nibble::InputError&) {
  }
  return 0;
}
