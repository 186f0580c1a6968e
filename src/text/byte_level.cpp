#include "text/byte_level.h"

#include <array>
#include <cstdint>

namespace nibble {
namespace {

constexpr size_t kAlphabetEnd{0x144};

constexpr auto kByteOf = [] {  // byte of each code point; -1: none
  std::array<int16_t, kAlphabetEnd> bytes{};
  bytes.fill(-1);
  size_t next_moved = 0x100;
  for (int16_t byte = 0; byte < 256; ++byte) {
    const bool is_itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    bytes[is_itself ? static_cast<size_t>(byte) : next_moved++] = byte;
  }
  return bytes;
}();

}  // namespace

bool append_byte_level(std::string_view letters, std::string& bytes) {
  for (size_t i = 0; i < letters.size(); ++i) {
    size_t code_point = static_cast<uint8_t>(letters[i]);
    if (code_point >= 0x80) {  // letters above ASCII take two bytes of UTF-8
      if (code_point < 0xC2 || code_point > 0xDF || i + 1 == letters.size()) return false;
      code_point = (code_point & 0x1F) << 6 | (static_cast<uint8_t>(letters[++i]) & 0x3F);
    }
    if (code_point >= kAlphabetEnd || kByteOf[code_point] < 0) return false;
    bytes += static_cast<char>(kByteOf[code_point]);
  }
  return true;
}

}  // namespace nibble
