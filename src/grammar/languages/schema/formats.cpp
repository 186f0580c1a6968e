#include "grammar/languages/schema/formats.h"

#include <algorithm>
#include <iterator>

#include "grammar/languages/schema/format_parts.h"

namespace nibble::grammar {
namespace {

// UUIDs of RFC 9562.
Expression uuid_format(Expressions& e) {
  return whole_match(e, "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}");
}

// JSON Pointers of RFC 6901.
constexpr std::string_view kPointer{R"((?:/(?:[^~/]|~[01])*)*)"};

Expression json_pointer_format(Expressions& e) { return whole_match(e, kPointer); }

// Matches the relative JSON Pointers of draft-bhutton-relative-json-pointer-00: levels up, an offset, "#" or
// a pointer.
Expression relative_json_pointer_format(Expressions& e) {
  constexpr std::string_view kNumber{R"((?:0|[1-9]\d*))"};
  return whole_match(e, fmt::format(R"({0}(?:[+-]{0})?(?:#|{1}))", kNumber, kPointer));
}

constexpr std::string_view kLeapSecond{"the time of day of a leap second"};

constexpr Format kFormats[]{
    {"date", &date_format},
    {"time", &time_format, false, {}, &time_format_of_any_leap_second, kLeapSecond},
    {"date-time", &date_time_format, false, {}, &date_time_format_of_any_leap_second, kLeapSecond},
    {"duration", &duration_format},
    {"email", &email_format, true},
    {"hostname", &hostname_format, true, "the Punycode of labels that begin with 'xn--'"},
    {"ipv4", &ipv4_format},
    {"ipv6", &ipv6_format},
    {"uuid", &uuid_format},
    {"uri", &uri_format},
    {"uri-reference", &uri_reference_format},
    {"iri", &iri_format},
    {"iri-reference", &iri_reference_format},
    {"uri-template", &uri_template_format},
    {"json-pointer", &json_pointer_format},
    {"relative-json-pointer", &relative_json_pointer_format},
    {"regex", &regex_format, true,
     "counts, ranges, references and groups nested more than three levels deep"},
};

}  // namespace

const Format* find_format(std::string_view name) {
  const auto known = std::ranges::find(kFormats, name, &Format::name);
  return known == std::end(kFormats) ? nullptr : known;
}

}  // namespace nibble::grammar
