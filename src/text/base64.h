// Decodes base64 with padding (RFC 4648, section 4).
#pragma once

#include <string>
#include <string_view>

namespace nibble {

// Appends the decoded bytes to `bytes`. Returns false if `digits` is empty or is not base64 with padding.
bool decode_base64(std::string_view digits, std::string& bytes);

}  // namespace nibble
