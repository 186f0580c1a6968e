// The alphabet in which a tokenizer.json writes bytes: one printable character per byte. The bytes 0x21 to
// 0x7E, 0xA1 to 0xAC and 0xAE to 0xFF are the code points of the same number. The other 68 bytes, in order,
// are U+0100 to U+0143 (a space is U+0120).
#pragma once

#include <string>
#include <string_view>

namespace nibble {

// Appends the bytes for `letters`. Returns false if a character is not in the alphabet.
[[nodiscard]] bool append_byte_level(std::string_view letters, std::string& bytes);

}  // namespace nibble
