// String formats that are enforced. A format accepts the texts that its standard allows, and others only as
// `not_checked` states.
#pragma once

#include <string_view>

#include "grammar/automata/expressions.h"

namespace nibble::grammar {

struct Format {
  std::string_view name;
  Expression (*texts)(Expressions&);
  // The automaton has too many states to list them all. Limits on the length are then built into it
  // (strings.cpp).
  bool has_many_states{false};
  std::string_view not_checked{};  // parts that are not enforced, for a warning
  // A wider format with few states. It is used, with a warning, if other keywords also restrict the text.
  Expression (*beside_others)(Expressions&){nullptr};
  std::string_view not_checked_beside_others{};
};

// Returns null if the format is unknown.
const Format* find_format(std::string_view name);

// Defined in schema/formats_*.cpp.
Expression date_format(Expressions& e);
Expression time_format(Expressions& e);
Expression date_time_format(Expressions& e);
Expression time_format_of_any_leap_second(Expressions& e);
Expression date_time_format_of_any_leap_second(Expressions& e);
Expression duration_format(Expressions& e);
Expression ipv4_format(Expressions& e);
Expression ipv6_format(Expressions& e);
Expression hostname_format(Expressions& e);
Expression email_format(Expressions& e);
Expression uri_format(Expressions& e);
Expression uri_reference_format(Expressions& e);
Expression iri_format(Expressions& e);
Expression iri_reference_format(Expressions& e);
Expression uri_template_format(Expressions& e);
Expression regex_format(Expressions& e);

}  // namespace nibble::grammar
