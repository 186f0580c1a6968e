#pragma once

#include <string>
#include <string_view>

namespace nibble {

// Decodes base64 of RFC 4648, section 4, with padding. Returns false if `digits` is empty or malformed.
bool decode_base64(std::string_view digits, std::string& bytes);

std::string encode_base64(std::string_view bytes);  // the same form; "" for no bytes

}  // namespace nibble
