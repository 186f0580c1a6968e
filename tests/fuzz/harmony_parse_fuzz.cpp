// Parses any stream of tokens. The first byte chooses the role. Each further byte is its own token (the first
// 256 tokens of the tiny vocabulary are the bytes), with exceptions so that short inputs reach more code:
// bytes that UTF-8 never uses stand for control tokens and other ids, bytes below 16 for words of headers.
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "core/errors/check.h"
#include "harmony/parse.h"
#include "tests/folders.h"
#include "text/utf8_stream.h"

namespace {

using namespace nibble;
using namespace nibble::harmony;

constexpr const char* kWords[]{
    "assistant", "user:",          "tool", "functions.f", "analysis", "commentary",    "final",
    " to=",      " json",          "\t",   "\n",          " code",    " to=assistant", "\r",
    "{\"a\":1}", " to=functions.f"};
constexpr const char* kControls[]{"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>",
                                  "<|end|>",   "<|call|>",    "<|return|>",    "<|endoftext|>"};
constexpr uint8_t kFirstControl{0xF5};  // control tokens are 0xF5 to 0xFC
constexpr uint8_t kAnyId{0xFD};         // the next two bytes are an id, which may have no token
constexpr size_t kMaxSize{64};          // longer streams take longer and reach no new code

const Tokenizer& tiny() {
  static const Tokenizer tokenizer = Tokenizer::open(test::source_path("models/tiny-gpt-oss/tokenizer.json"));
  return tokenizer;
}

std::vector<TokenId> meaning_of(uint8_t byte) {
  if (byte < std::size(kWords)) return tiny().encode(kWords[byte], SpecialTokens::kOrdinary);
  if (byte >= kFirstControl && byte < kAnyId)
    return {tiny().special(kControls[byte - kFirstControl]).value()};
  return tiny().encode(std::string(1, static_cast<char>(byte)), SpecialTokens::kOrdinary);
}

std::vector<TokenId> tokens_of(const uint8_t* data, size_t size) {
  static const std::vector<std::vector<TokenId>> meanings = [] {
    std::vector<std::vector<TokenId>> of_bytes;
    for (int byte = 0; byte < 256; ++byte) of_bytes.push_back(meaning_of(static_cast<uint8_t>(byte)));
    return of_bytes;
  }();
  std::vector<TokenId> tokens;
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == kAnyId && i + 2 < size) {
      tokens.push_back(static_cast<int16_t>(data[i + 1] << 8 | data[i + 2]));
      i += 2;
    } else {
      tokens.insert(tokens.end(), meanings[data[i]].begin(), meanings[data[i]].end());
    }
  }
  return tokens;
}

void check_utf8(const std::string& text) { NIBBLE_CHECK(Utf8Stream().push(text) == text); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > kMaxSize) return 0;
  Parser parser(tiny(), data[0] & 1 ? std::optional(Role::kAssistant) : std::nullopt);
  size_t num_begun = 0, num_ended = 0;
  std::string text;  // text of the last message, accumulated from its deltas
  const auto hear = [&](const Delta& delta) {
    if (delta.header_ended) {
      text.clear();
      ++num_begun;
    }
    text += delta.text;
    num_ended += delta.message_ended;
    NIBBLE_CHECK(parser.messages().size() == num_begun);
    if (delta.message_ended) NIBBLE_CHECK(parser.messages().back().message.text == text);
  };
  for (const TokenId token : tokens_of(data + 1, size - 1)) hear(parser.push(token));
  hear(parser.finish());
  NIBBLE_CHECK(num_ended == num_begun);
  check_utf8(parser.unfinished_header());
  for (const ParsedMessage& parsed : parser.messages()) {
    const Message& message = parsed.message;
    NIBBLE_CHECK(!parsed.has_cut_header || parsed.is_complete);
    check_utf8(message.text);
    for (const auto* field :
         {&message.author_name, &message.recipient, &message.channel, &message.content_type})
      if (*field) check_utf8(**field);
  }
  return 0;
}
