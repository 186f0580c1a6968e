#include "grammar/languages/schema/format_parts.h"
#include "grammar/languages/schema/formats.h"

namespace nibble::grammar {
namespace {

constexpr std::string_view kGroup{"[0-9A-Fa-f]{1,4}"};
constexpr uint32_t kMaxMailbox{64}, kMaxHostname{253};  // characters

// Matches the hostnames of RFC 1123, 2.1, and RFC 1034, 3.1: labels of up to 63 letters, digits and inner
// hyphens.
Expression labels(Expressions& e) {
  constexpr std::string_view kLabel{"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"};
  return up_to(e, kMaxHostname, whole_match(e, fmt::format(R"({0}(?:\.{0})*)", kLabel)));
}

}  // namespace

std::string ipv4_regex() {
  constexpr std::string_view kOctet{R"((?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))"};
  return fmt::format(R"((?:{0}\.){{3}}{0})", kOctet);
}

std::string ipv6_regex(int least_missing) {
  const std::string ipv4 = ipv4_regex();
  std::string regex = fmt::format("(?:{0}:){{7}}{0}|(?:{0}:){{6}}{1}", kGroup, ipv4);
  const int most = 8 - least_missing;  // maximum number of groups next to `::`
  for (int before = 0; before <= most; ++before) {
    regex += before == 0 ? "|::" : fmt::format("|{0}(?::{0}){{{1}}}::", kGroup, before - 1);
    if (before == most) continue;
    regex += fmt::format("(?:{0}(?::{0}){{0,{1}}}", kGroup, most - before - 1);
    if (most - before >= 2) regex += fmt::format("|(?:{}:){{0,{}}}{}", kGroup, most - before - 2, ipv4);
    regex += ")?";
  }
  return fmt::format("(?:{})", regex);
}

Expression ipv4_format(Expressions& e) { return whole_match(e, ipv4_regex()); }
Expression ipv6_format(Expressions& e) { return whole_match(e, ipv6_regex(1)); }
Expression hostname_format(Expressions& e) { return labels(e); }

// Matches the "Mailbox" of RFC 5321, 4.1.2 and 4.1.3, with the limits of 4.5.3.1 on the part before the @ and
// on the domain. An address literal must have a registered tag; IPv6 is the only one.
Expression email_format(Expressions& e) {
  constexpr std::string_view kAtom{R"([A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)"};
  constexpr std::string_view kQuoted{R"("(?:[ !#-\[\]-~]|\\[ -~])*")"};
  const Expression mailbox =
      up_to(e, kMaxMailbox, whole_match(e, fmt::format(R"({0}(?:\.{0})*|{1})", kAtom, kQuoted)));
  constexpr std::string_view kOctet{R"((?:25[0-5]|2[0-4]\d|[01]\d\d|\d\d?))"};
  const Expression literal =
      whole_match(e, fmt::format(R"(\[(?:(?:{0}\.){{3}}{0}|[Ii][Pp][Vv]6:{1})\])", kOctet, ipv6_regex(2)));
  return e.concat(std::vector{mailbox, e.text("@"), e.any_of(labels(e), literal)});
}

}  // namespace nibble::grammar
