#include "text/base64.h"

#include <array>
#include <cstdint>

namespace nibble {
namespace {

constexpr std::string_view kDigits{"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"};

constexpr auto kBase64 = [] {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (size_t i = 0; i < kDigits.size(); ++i)
    values[static_cast<uint8_t>(kDigits[i])] = static_cast<int8_t>(i);
  return values;
}();

}  // namespace

bool decode_base64(std::string_view digits, std::string& bytes) {
  if (digits.empty() || digits.size() % 4 != 0) return false;
  const size_t num_padded = digits.ends_with("==") ? 2 : digits.ends_with('=') ? 1 : 0;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char digit : digits.substr(0, digits.size() - num_padded)) {
    const int value = kBase64[static_cast<uint8_t>(digit)];
    if (value < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(value);
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes += static_cast<char>(bits >> num_bits);
  }
  return (bits & ((1u << num_bits) - 1)) == 0;  // the unused low bits of the last digit must be zero
}

std::string encode_base64(std::string_view bytes) {
  std::string digits;
  digits.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view group = bytes.substr(i, 3);
    uint32_t bits = 0;
    for (const char byte : group) bits = bits << 8 | static_cast<uint8_t>(byte);
    bits <<= 8 * (3 - group.size());
    for (size_t digit = 0; digit < 4; ++digit)
      digits += digit <= group.size() ? kDigits[bits >> (18 - 6 * digit) & 63] : '=';
  }
  return digits;
}

}  // namespace nibble
