// What the files of formats.h share.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "grammar/languages/regex.h"

namespace nibble::grammar {

inline Expression whole_match(Expressions& e, std::string_view regex) {
  return regex_expression(e, regex, {}, "format");
}

// At most this number of characters.
inline Expression up_to(Expressions& e, uint32_t max_length, Expression texts) {
  return e.all_of(texts, e.repeat(e.set(CodePoints::all()), 0, max_length));
}

// 0.0.0.0 to 255.255.255.255 without leading zeros: RFC 2673, 3.2.
std::string ipv4_regex();

// RFC 4291, 2.2: eight groups, the last two of which may be an IPv4 address. `::` stands for the groups that are missing, at least
// `least_missing`.
std::string ipv6_regex(int least_missing);

}  // namespace nibble::grammar
