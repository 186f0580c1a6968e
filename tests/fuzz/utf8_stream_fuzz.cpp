// Pushes any bytes, split anywhere, through a Utf8Stream. The result must be valid UTF-8 after every push,
// and not depend on the split. Valid bytes are unchanged. The first byte decides where bytes are split.
#include <simdjson.h>

#include <string>
#include <string_view>

#include "core/errors/check.h"
#include "core/numbers/random.h"
#include "text/utf8_stream.h"

namespace {

bool is_valid(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

std::string streamed(std::string_view bytes, uint64_t seed) {
  nibble::Utf8Stream stream;
  std::string text;
  for (uint64_t i = 0; !bytes.empty(); ++i) {
    const size_t cut = std::min<size_t>(bytes.size(), nibble::random_bits(seed, i) % 5);
    const std::string part = stream.push(bytes.substr(0, cut));
    NIBBLE_CHECK(is_valid(part));
    text += part;
    bytes.remove_prefix(cut);
  }
  const bool was_waiting = stream.is_waiting();
  const std::string last = stream.finish();
  NIBBLE_CHECK(was_waiting == !last.empty() && is_valid(last));
  return text + last;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 200) return 0;  // longer inputs only take longer
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  nibble::Utf8Stream whole;
  std::string text = whole.push(bytes);
  text += whole.finish();
  NIBBLE_CHECK(streamed(bytes, data[0]) == text);
  NIBBLE_CHECK((text == bytes) == is_valid(bytes));
  return 0;
}
