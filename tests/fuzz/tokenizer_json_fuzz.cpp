// Reads a tokenizer.json. Either it is refused, or encoding with it loses no byte. The first byte of the
// input chooses the part of a small valid file that the other bytes replace, because a mutated file is
// rarely valid as a whole.
#include <string>
#include <string_view>
#include <vector>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "text/bpe_model.h"

namespace {

// Returns a code point as a JSON escape, which is always valid.
std::string escaped(uint32_t code_point) {
  constexpr std::string_view kDigits{"0123456789abcdef"};
  std::string text = "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) text += kDigits[code_point >> shift & 15];
  return text;
}

// Returns all bytes in the ByteLevel alphabet, as members such as "a":97.
std::string all_bytes() {
  std::string members;
  uint32_t moved = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool stays = (0x21 <= byte && byte <= 0x7E) || (0xA1 <= byte && byte <= 0xAC) || 0xAE <= byte;
    members += "\"" + escaped(stays ? byte : moved++) + "\":" + std::to_string(byte) + ",";
  }
  return members;
}

std::string file_with(uint8_t part, std::string_view value) {
  const auto or_else = [&](uint8_t number, std::string_view usual) {
    return std::string(part % 7 == number ? value : usual);
  };
  if (part % 7 == 0) return std::string(value);
  static const std::string kAllBytes = all_bytes();
  return R"({"added_tokens":)" + or_else(1, R"([{"id":300,"content":"<|end|>","special":true}])") +
         R"(,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":)" +
         or_else(2, R"("a")") + R"(},"behavior":"Isolated"},)" +
         or_else(3, R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})") +
         R"(]},"decoder":{"type":"ByteLevel"},)" + or_else(4, R"("normalizer":null)") +
         R"(,"model":{"type":"BPE","vocab":{)" + kAllBytes + or_else(5, R"("ab":256)") + R"(},"merges":)" +
         or_else(6, R"([["a","b"]])") + "}}";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble;
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const BpeModel model = read_tokenizer_json(file_with(data[0], rest), "fuzz");
    std::vector<TokenId> ids;
    if (!rest.empty()) model.merges.apply(rest, ids);
    std::string decoded;
    for (const TokenId id : ids) {
      NIBBLE_CHECK(!model.vocabulary.is_special(id), "{}", id);
      decoded += model.vocabulary.bytes(id);
    }
    NIBBLE_CHECK(decoded == rest);
  } catch (const InputError&) {
  }
  return 0;
}
