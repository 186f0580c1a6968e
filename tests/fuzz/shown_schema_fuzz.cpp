// Shows any JSON as the schema of a tool. The result must be readable and renderable, and not much larger
// than the schema.
#include <cstdint>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/text/json.h"
#include "harmony/shown_schema.h"
#include "harmony/typescript.h"

using namespace nibble;
using namespace nibble::harmony;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMaxSize{512};  // longer texts take longer and reach no new code
  if (size > kMaxSize) return 0;
  Json schema;
  try {
    schema = parse_json({reinterpret_cast<const char*>(data), size}, "input");
  } catch (const InputError&) {
    return 0;
  }
  if (const auto shown = shown_schema(schema)) {
    const std::string text = json_line(*shown, JsonSpacing::kNone);
    NIBBLE_CHECK(text.size() < (size_t{4} << 20), "{}", text.size());
    NIBBLE_CHECK(typescript_type(parse_json(text, "what is shown")) == typescript_type(*shown));
  }
  return 0;
}
