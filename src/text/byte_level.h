// The alphabet in which a tokenizer.json writes bytes, each as one printable character. Bytes 0x21 to 0x7E,
// 0xA1 to 0xAC and 0xAE to 0xFF are the code points of the same number; the other 68 are, in order, U+0100 to
// U+0143 (a space is U+0120).
#pragma once

#include <string>
#include <string_view>

namespace nibble {

// Appends the bytes that `letters` stands for. Returns false if it has a character outside the alphabet.
[[nodiscard]] bool append_byte_level(std::string_view letters, std::string& bytes);

}  // namespace nibble
