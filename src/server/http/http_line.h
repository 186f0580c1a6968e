// The lines of headers, chunks and trailers (RFC 9112). Only CR LF ends a line, and a line has no control characters: a proxy that
// takes something else for an end would find other requests in the same bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace nibble::server {

// Control characters except the tabulator, and DEL.
constexpr bool is_control(char letter) {
  const auto code = static_cast<unsigned char>(letter);
  return (code < 0x20 && letter != '\t') || code == 0x7F;
}

constexpr bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// The number of letters that `text` begins with and that methods and names of fields are made of.
size_t token_length(std::string_view text);
bool is_token(std::string_view text);

std::string_view without_blanks(std::string_view text);  // at both ends
bool equals_ignoring_case(std::string_view one, std::string_view other);

// Takes the first line off `bytes`. Returns it without its end, or nothing if the end has not arrived. Throws HttpError (400).
std::optional<std::string_view> take_line(std::string_view& bytes);

struct HeaderField {
  std::string_view name, value;
};
// Splits "NAME: VALUE". Throws HttpError (400).
HeaderField split_field(std::string_view line);

}  // namespace nibble::server
