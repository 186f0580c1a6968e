// Regular expressions of ECMA-262.
#include "grammar/languages/schema/format_parts.h"
#include "grammar/languages/schema/formats.h"

namespace nibble::grammar {

// Checks that groups close (nested up to three deep), sets end, quantifiers have something to repeat, and the
// text does not end in a backslash. The content of braces and sets, and the character after a backslash, are
// free.
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
