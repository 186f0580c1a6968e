#pragma once

#include <string>
#include <string_view>

namespace nibble {

// RFC 4648, section 4, with padding. Returns false if `digits` is empty or malformed.
bool decode_base64(std::string_view digits, std::string& bytes);

}  // namespace nibble
