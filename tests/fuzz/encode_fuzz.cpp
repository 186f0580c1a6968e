// Encodes any bytes with the bundled vocabulary, once as ordinary text and once with special tokens
// recognised. Decoding must return the same bytes, and the encoding as ordinary text must contain no special
// token.
#include <string_view>

#include "core/errors/check.h"
#include "tests/folders.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble;
  // 400 bytes exceed the longest token and reach both ways of merging. Longer inputs only take more time.
  if (size > 400) return 0;
  static const Tokenizer tokenizer = Tokenizer::open(test::source_path("models/tiny-gpt-oss"));
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto ordinary = tokenizer.encode(text, SpecialTokens::kOrdinary);
  NIBBLE_CHECK(tokenizer.decode(ordinary) == text);
  for (const TokenId id : ordinary) NIBBLE_CHECK(!tokenizer.is_special(id), "{}", id);
  NIBBLE_CHECK(tokenizer.decode(tokenizer.encode(text, SpecialTokens::kRecognise)) == text);
  return 0;
}
