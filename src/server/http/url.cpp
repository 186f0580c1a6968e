#include "server/http/url.h"

#include <algorithm>
#include <charconv>

namespace nibble::server {

std::string url_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code{};
    if (text[i] == '%' && i + 2 < text.size()) {
      const char* digits = text.data() + i + 1;
      if (std::from_chars(digits, digits + 2, code, 16).ptr == digits + 2) {
        decoded += static_cast<char>(code);
        i += 2;
        continue;
      }
    }
    decoded += text[i];
  }
  return decoded;
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    const size_t equals = std::min(pair.find('='), pair.size());
    if (pair.substr(0, equals) == name) return url_decoded(pair.substr(std::min(equals + 1, pair.size())));
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  return std::nullopt;
}

std::optional<std::string_view> match_path(std::string_view route, std::string_view path) {
  constexpr std::string_view kId{"{id}"};
  const size_t begin = route.find(kId);
  if (begin == std::string_view::npos)
    return route == path ? std::optional(std::string_view()) : std::nullopt;
  const std::string_view before = route.substr(0, begin), after = route.substr(begin + kId.size());
  if (path.size() <= before.size() + after.size() || !path.starts_with(before) || !path.ends_with(after))
    return std::nullopt;
  return path.substr(before.size(), path.size() - before.size() - after.size());
}

std::string with_v1(std::string_view path) {
  constexpr std::string_view kShort[]{"/models", "/chat/completions", "/completions", "/responses",
                                      "/messages"};
  std::string plain;
  for (const char letter : path)
    if (letter != '/' || !plain.ends_with('/')) plain += letter;
  if (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  const bool is_short = std::ranges::any_of(kShort, [&](std::string_view known) {
    return plain.starts_with(known) && (plain.size() == known.size() || plain[known.size()] == '/');
  });
  return (is_short ? "/v1" : "") + plain;
}

}  // namespace nibble::server
