// Reads any bytes as a rank file. Either the file is refused, or its tokens are found by their bytes and
// encoding loses no byte. The first byte chooses whether the 256 single bytes are prepended, because few
// inputs would contain all of them.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "text/bpe_model.h"

namespace {

std::string all_bytes() {
  constexpr std::string_view kDigits{"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"};
  std::string lines;
  for (size_t byte = 0; byte < 256; ++byte)
    lines += fmt::format("{}{}== {}\n", kDigits[byte >> 2], kDigits[(byte & 3) << 4], byte);
  return lines;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble;
  static const std::string kAllBytes = all_bytes();
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const BpeModel model =
        read_tiktoken(data[0] & 1 ? kAllBytes + std::string(rest) : std::string(rest), "fuzz");
    for (TokenId id = 0; id < model.vocabulary.num_ids(); ++id)
      NIBBLE_CHECK(model.vocabulary.is_special(id) ||
                   model.vocabulary.find(model.vocabulary.bytes(id)) == id);
    std::vector<TokenId> ids;
    if (!rest.empty()) model.merges.apply(rest, ids);
    std::string decoded;
    for (const TokenId id : ids) decoded += model.vocabulary.bytes(id);
    NIBBLE_CHECK(decoded == rest);
  } catch (const InputError&) {
  }
  return 0;
}
