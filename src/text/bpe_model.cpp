#include "text/bpe_model.h"

#include "core/errors/error.h"

namespace nibble {

std::array<TokenId, 256> byte_tokens(const Vocabulary& vocabulary, const std::string& origin) {
  std::array<TokenId, 256> tokens;
  for (size_t byte = 0; byte < tokens.size(); ++byte) {
    const char as_char = static_cast<char>(byte);
    const auto token = vocabulary.find({&as_char, 1});
    if (!token)
      throw InputError(
          "{}: byte 0x{:02X} has no token; a byte-level vocabulary needs one for each of the 256 bytes.",
          origin, byte);
    tokens[byte] = *token;
  }
  return tokens;
}

}  // namespace nibble
