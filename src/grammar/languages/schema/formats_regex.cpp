#include "grammar/languages/schema/format_parts.h"
#include "grammar/languages/schema/formats.h"

namespace nibble::grammar {

// Regular expressions of ECMA-262. Checked: groups close (up to three deep), sets end, quantifiers have
// something to repeat, no backslash is last. Not checked: braces, the content of sets, and the character
// after a backslash.
Expression regex_format(Expressions& e) {
  constexpr std::string_view kSet{R"(\[(?:[^\]\\]|\\(?:.|\n))*\])"}, kEscape{R"(\\(?:.|\n))"};
  constexpr std::string_view kQuantifier{R"((?:(?:[*+?]|\{\d+(?:,\d*)?\})\??)?)"};
  constexpr std::string_view kGroup{R"(\((?:\?(?:[=!:]|<[=!]|<[^>]+>|[ims]*(?:-[ims]*)?:))?)"};
  std::string body = fmt::format(R"((?:{}|{}|[^\[\\])*)", kEscape, kSet);
  for (int depth = 3; depth >= 0; --depth) {
    const std::string atom = fmt::format(R"({}|{}|[^\[\\()*+?|^$]|{}{}\))", kEscape, kSet, kGroup, body);
    body = fmt::format(R"((?:(?:{}){}|[|^$])*)", atom, kQuantifier);
  }
  return whole_match(e, body);
}

}  // namespace nibble::grammar
