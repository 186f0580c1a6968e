#pragma once

#include <string>
#include <string_view>

#include "grammar/languages/regex.h"

namespace nibble::grammar {

inline Expression whole_match(Expressions& e, std::string_view regex) {
  return regex_expression(e, regex, {}, "format");
}

inline Expression up_to(Expressions& e, uint32_t max_length, Expression texts) {
  return e.all_of(texts, e.repeat(e.set(CodePoints::all()), 0, max_length));
}

// Matches IPv4 addresses, 0.0.0.0 to 255.255.255.255, without leading zeros: RFC 2673, 3.2.
std::string ipv4_regex();

// Matches IPv6 addresses of RFC 4291, 2.2. `::` must stand for at least `least_missing` of the eight groups.
std::string ipv6_regex(int least_missing);

}  // namespace nibble::grammar
