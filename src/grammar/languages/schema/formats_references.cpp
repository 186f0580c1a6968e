// References of RFC 3986 (URI), RFC 3987 (IRI) and RFC 6570 (URI Template).
#include "grammar/languages/schema/format_parts.h"
#include "grammar/languages/schema/formats.h"

namespace nibble::grammar {
namespace {

// Characters, for use inside a set, that an IRI may have in addition to the characters of a URI.
constexpr std::string_view kUcsCharacters{
    R"(\x{A0}-\x{D7FF}\x{F900}-\x{FDCF}\x{FDF0}-\x{FFEF}\x{10000}-\x{1FFFD}\x{20000}-\x{2FFFD}\x{30000}-\x{3FFFD})"
    R"(\x{40000}-\x{4FFFD}\x{50000}-\x{5FFFD}\x{60000}-\x{6FFFD}\x{70000}-\x{7FFFD}\x{80000}-\x{8FFFD})"
    R"(\x{90000}-\x{9FFFD}\x{A0000}-\x{AFFFD}\x{B0000}-\x{BFFFD}\x{C0000}-\x{CFFFD}\x{D0000}-\x{DFFFD})"
    R"(\x{E1000}-\x{EFFFD})"};
constexpr std::string_view kPrivateCharacters{R"(\x{E000}-\x{F8FF}\x{F0000}-\x{FFFFD}\x{100000}-\x{10FFFD})"};
constexpr std::string_view kEscape{"%[0-9A-Fa-f]{2}"};
constexpr std::string_view kUnreservedAndDelimiters{R"(A-Za-z0-9._~!$&'()*+,;=\-)"};

// Regular expressions for the parts of a reference, named as in RFC 3986, appendix A.
struct Parts {
  explicit Parts(std::string_view more, std::string_view more_in_queries) {
    const auto any_of = [&](std::string_view characters) {
      return fmt::format("(?:[{}{}{}]|{})", kUnreservedAndDelimiters, more, characters, kEscape);
    };
    const std::string pchar = any_of(":@");
    const std::string literal =
        fmt::format(R"(\[(?:{}|[Vv][0-9A-Fa-f]+\.[{}:]+)\])", ipv6_regex(1), kUnreservedAndDelimiters);
    authority = fmt::format(R"((?:{}*@)?(?:{}|{}*)(?::\d*)?)", any_of(":"), literal, any_of(""));
    segments = fmt::format("(?:/{}*)*", pchar);
    absolute = fmt::format("/(?:{}+{})?", pchar, segments);
    rootless = fmt::format("{}+{}", pchar, segments);
    no_scheme = fmt::format("{}+{}", any_of("@"), segments);
    rest = fmt::format(R"((?:\?{}*)?(?:#{}*)?)", any_of(std::string(":@/?").append(more_in_queries)),
                       any_of(":@/?"));
  }

  std::string with_scheme() const {
    return fmt::format("[A-Za-z][A-Za-z0-9+.-]*:(?://{}{}|{}|{}|){}", authority, segments, absolute, rootless,
                       rest);
  }
  std::string relative() const {
    return fmt::format("(?://{}{}|{}|{}|){}", authority, segments, absolute, no_scheme, rest);
  }
  std::string reference() const { return fmt::format("{}|{}", with_scheme(), relative()); }

  std::string authority, segments, absolute, rootless, no_scheme, rest;
};

Parts uri() { return Parts("", ""); }
Parts iri() { return Parts(kUcsCharacters, kPrivateCharacters); }

}  // namespace

Expression uri_format(Expressions& e) { return whole_match(e, uri().with_scheme()); }
Expression uri_reference_format(Expressions& e) { return whole_match(e, uri().reference()); }
Expression iri_format(Expressions& e) { return whole_match(e, iri().with_scheme()); }
Expression iri_reference_format(Expressions& e) { return whole_match(e, iri().reference()); }

// Literals of a template may contain an apostrophe, as erratum 6937 of RFC 6570 allows.
Expression uri_template_format(Expressions& e) {
  const std::string literal =
      fmt::format(R"((?:[!#$&-;=?-\[\]_a-z~{}{}]|{}))", kUcsCharacters, kPrivateCharacters, kEscape);
  const std::string name = fmt::format(R"({0}(?:\.?{0})*)", fmt::format("(?:[A-Za-z0-9_]|{})", kEscape));
  const std::string variable = fmt::format(R"({}(?::[1-9]\d{{0,3}}|\*)?)", name);
  return whole_match(e, fmt::format(R"((?:{0}|\{{[+#./;?&=,!@|]?{1}(?:,{1})*\}})*)", literal, variable));
}

}  // namespace nibble::grammar
