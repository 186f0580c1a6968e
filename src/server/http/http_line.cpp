#include "server/http/http_line.h"

#include <algorithm>

#include "server/http/http_error.h"

namespace nibble::server {
namespace {

constexpr bool is_token_letter(char letter) {
  return is_digit(letter) || (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(letter) != std::string_view::npos;
}

constexpr char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter | 0x20) : letter;
}

}  // namespace

size_t token_length(std::string_view text) {
  return static_cast<size_t>(std::ranges::find_if_not(text, is_token_letter) - text.begin());
}

bool is_token(std::string_view text) { return !text.empty() && token_length(text) == text.size(); }

std::string_view without_blanks(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(" \t") + 1);
}

bool equals_ignoring_case(std::string_view one, std::string_view other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](char a, char b) { return lower(a) == lower(b); });
}

std::optional<std::string_view> take_line(std::string_view& bytes) {
  const auto control = std::ranges::find_if(bytes, is_control);
  const auto length = static_cast<size_t>(control - bytes.begin());
  const std::string_view end = bytes.substr(length, 2);
  if (end.empty() || end == "\r") return std::nullopt;
  if (end != "\r\n")
    throw HttpError(400,
                    "a line of the header or of a chunk has a control character, or does not end in CR LF");
  const std::string_view line = bytes.substr(0, length);
  bytes.remove_prefix(length + 2);
  return line;
}

HeaderField split_field(std::string_view line) {
  const size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  if (colon == std::string_view::npos || !is_token(name))
    throw HttpError(
        400, "a header line must be 'NAME: VALUE', without a space before the colon or a continuation line");
  return {name, without_blanks(line.substr(colon + 1))};
}

}  // namespace nibble::server
