// Reads any text as a conversation and as a chat in JSON, and renders the result.
#include <cstdint>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/text/json.h"
#include "harmony/chat.h"
#include "harmony/json.h"
#include "harmony/render.h"
#include "tests/folders.h"

namespace {

using namespace nibble;
using namespace nibble::harmony;

constexpr size_t kMaxSize{512};  // longer texts take longer and reach no new code

const Tokenizer& tiny() {
  static const Tokenizer tokenizer = Tokenizer::open(test::source_path("models/tiny-gpt-oss/tokenizer.json"));
  return tokenizer;
}

void render_and_read_again(const Conversation& conversation) {
  const Rendered rendered = render(conversation, tiny(), {});
  NIBBLE_CHECK(tiny().decode(rendered.tokens) == rendered.text);
  const Conversation again =
      conversation_from_json(parse_json(to_json(conversation).dump(), "what was written"));
  NIBBLE_CHECK(render(again, tiny(), {}).tokens == rendered.tokens);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > kMaxSize) return 0;
  Json json;
  try {
    json = parse_json({reinterpret_cast<const char*>(data), size}, "input");
  } catch (const InputError&) {
    return 0;
  }
  try {
    render_and_read_again(conversation_from_json(json));
  } catch (const InputError&) {
  }
  try {
    render_and_read_again(to_conversation(chat_from_json(json)));
  } catch (const InputError&) {
  }
  return 0;
}
