// Lines of headers, chunks and trailers (RFC 9112). Only CR LF ends a line, and control characters are
// refused: a proxy that ends lines at another character would see other requests in the same bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace nibble::server {

constexpr bool is_control(char letter) {  // an ASCII control character other than tab
  const auto code = static_cast<unsigned char>(letter);
  return (code < 0x20 && letter != '\t') || code == 0x7F;
}

constexpr bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// Returns the length of the token (RFC 9110: methods, field names) at the start of `text`.
size_t token_length(std::string_view text);
bool is_token(std::string_view text);

std::string_view without_blanks(std::string_view text);  // trims spaces and tabs at both ends
bool equals_ignoring_case(std::string_view one, std::string_view other);

// Removes and returns the first line, without CR LF; nullopt if CR LF is missing. Throws HttpError (400).
std::optional<std::string_view> take_line(std::string_view& bytes);

struct HeaderField {
  std::string_view name, value;
};
HeaderField split_field(std::string_view line);  // splits "NAME: VALUE"; throws HttpError (400)

}  // namespace nibble::server
