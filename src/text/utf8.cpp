#include "text/utf8.h"

#include <cstdint>
#include <cstring>

#include "core/errors/check.h"

namespace nibble {
namespace {

struct Lead {
  uint8_t num_bytes;               // length of the character; 0 if no character starts with this byte
  uint8_t min_second, max_second;  // range of the second byte; all later bytes are 0x80 to 0xBF
};

Lead lead(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};  // continuation bytes, and C0 and C1, which are always overlong
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};  // a lower second byte would be overlong
  if (byte == 0xED) return {3, 0x80, 0x9F};  // a higher second byte would be a surrogate
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};  // a lower second byte would be overlong
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // a higher second byte would exceed U+10FFFF
  return {0, 0, 0};
}

}  // namespace

Utf8Part first_utf8_part(std::string_view bytes) {
  NIBBLE_CHECK(!bytes.empty());
  const Lead first = lead(static_cast<uint8_t>(bytes[0]));
  if (first.num_bytes == 0) return {Utf8Kind::kIllFormed, 1};
  for (size_t i = 1; i < first.num_bytes; ++i) {
    if (i == bytes.size()) return {Utf8Kind::kIncomplete, i};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t min = i == 1 ? first.min_second : 0x80;
    const uint8_t max = i == 1 ? first.max_second : 0xBF;
    if (byte < min || byte > max) return {Utf8Kind::kIllFormed, i};
  }
  return {Utf8Kind::kCharacter, first.num_bytes};
}

Character first_character(std::string_view text) {
  const auto bits = [&](size_t i, uint32_t mask) { return static_cast<uint8_t>(text[i]) & mask; };
  switch (lead(static_cast<uint8_t>(text[0])).num_bytes) {
    case 1:
      return {bits(0, 0x7F), 1};
    case 2:
      return {bits(0, 0x1F) << 6 | bits(1, 0x3F), 2};
    case 3:
      return {bits(0, 0x0F) << 12 | bits(1, 0x3F) << 6 | bits(2, 0x3F), 3};
    default:
      return {bits(0, 0x07) << 18 | bits(1, 0x3F) << 12 | bits(2, 0x3F) << 6 | bits(3, 0x3F), 4};
  }
}

void append_utf8(std::string& text, char32_t code_point) {
  const int num_more = code_point < 0x80 ? 0 : code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
  constexpr uint8_t kLeads[]{0x00, 0xC0, 0xE0, 0xF0};
  text += static_cast<char>(kLeads[num_more] | code_point >> 6 * num_more);
  for (int shift = 6 * (num_more - 1); shift >= 0; shift -= 6)
    text += static_cast<char>(0x80 | (code_point >> shift & 0x3F));
}

size_t ascii_prefix(std::string_view bytes) {
  size_t at = 0;
  for (uint64_t eight; at + sizeof eight <= bytes.size(); at += sizeof eight) {
    std::memcpy(&eight, bytes.data() + at, sizeof eight);
    if ((eight & 0x8080808080808080u) != 0) break;
  }
  while (at < bytes.size() && static_cast<uint8_t>(bytes[at]) < 0x80) ++at;
  return at;
}

size_t well_formed_prefix(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    at += ascii_prefix(bytes.substr(at));
    if (at == bytes.size()) break;
    const Utf8Part part = first_utf8_part(bytes.substr(at));
    if (part.kind != Utf8Kind::kCharacter) break;
    at += part.num_bytes;
  }
  return at;
}

}  // namespace nibble
