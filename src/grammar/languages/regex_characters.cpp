// Characters, sets and escapes of regular expressions: see regex_parser.h.
#include <algorithm>
#include <cctype>

#include "grammar/languages/grammar_text.h"
#include "grammar/languages/regex_parser.h"
#include "grammar/languages/unicode_property.h"

namespace nibble::grammar {
namespace {

CodePoints union_of(std::initializer_list<const char*> properties, CodePoints set) {
  Fuel fuel(kCompileFuel);
  for (const char* name : properties) set.add(*unicode_property(name, fuel));
  return set;
}

// Returns the characters that \d, \w or \s matches in every regex engine. wide_class() adds characters that
// only some engines match (Python: str.isalnum, str.isspace; ECMA-262: \s).
const CodePoints& narrow_class(char letter) {
  static const CodePoints digits{{'0', '9'}}, words{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
      blanks{{'\t', '\r'}, {' ', ' '}};
  return letter == 'd' ? digits : letter == 'w' ? words : blanks;
}

const CodePoints& wide_class(char letter) {
  if (letter == 'd') {
    static const CodePoints digits = union_of({"Nd"}, {});
    return digits;
  }
  if (letter == 'w') {
    static const CodePoints words = union_of({"L", "M", "N", "Pc"}, {});
    return words;
  }
  static const CodePoints blanks{{'\t', '\r'},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                 {0x1680, 0x1680}, {0x180E, 0x180E}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                 {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return blanks;
}

bool is_punctuation(char32_t c) { return c < 0x80 && std::ispunct(static_cast<int>(c)); }

// Inside a set, some engines read these pairs as POSIX classes or set operators, others as plain characters.
constexpr std::string_view kReadDifferently[]{"[.", "[=", "&&", "--", "~~"};

}  // namespace

CodePoints RegexParser::dot() const {
  if (options_.dot_is_anything) return CodePoints::all();
  if (options_.reading == RegexReading::kSearch)
    return CodePoints{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}.complement();
  return CodePoints{{'\n', '\n'}}.complement();
}

// Returns the characters of \d, \w, \s, \D, \W or \S that every engine matches; with `is_wide`, those that
// any engine matches. Returns nullopt for other letters.
std::optional<CodePoints> RegexParser::class_escape(char letter, bool is_wide) {
  switch (letter) {
    case 'd':
    case 'w':
    case 's':
      return is_wide ? wide_class(letter) : narrow_class(letter);
    case 'D':
    case 'W':
    case 'S': {
      const char small = static_cast<char>(letter - 'A' + 'a');
      return (is_wide ? narrow_class(small) : wide_class(small)).complement();
    }
    default:
      return std::nullopt;
  }
}

RegexParser::Part RegexParser::escape() {
  if (rest_.size() < 2) refuse("a backslash at the end");
  const char letter = rest_[1];
  if (const auto set = class_escape(letter, is_wide())) {
    rest_.remove_prefix(2);
    return characters(*set);
  }
  Part part;
  switch (letter) {
    case 'p':
    case 'P':
      rest_.remove_prefix(2);
      return characters(property(letter == 'P'));
    case 'A':
      rest_.remove_prefix(2);
      part.texts[1][0] = Expression::kEmptyText;
      return part;
    case 'z':
    case 'Z':
      rest_.remove_prefix(2);
      part.texts[0][1] = Expression::kEmptyText;
      return part;
    case 'b':
    case 'B':
      refuse("word boundaries are not supported");
    case 'k':
      refuse("backreferences are not supported");
    default:
      if (letter >= '1' && letter <= '9') refuse("backreferences are not supported");
      rest_.remove_prefix(1);
      const char32_t c = escaped_character(false);
      return characters({{c, c}});
  }
}

// Takes the part of an escape after its backslash.
char32_t RegexParser::escaped_character(bool is_in_set) {
  const char32_t c = character();
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '0':
      return 0;
    case 'a':
      return '\a';
    case 'e':
      return 0x1B;
    case 'x':
      return take("{") ? hexadecimal(0) : hexadecimal(2);
    case 'u': {
      if (take("{")) return hexadecimal(0);
      const char32_t high = hexadecimal(4);
      if (high < 0xD800 || high > 0xDFFF) return high;
      if (high < 0xDC00 && take("\\u"))
        if (const char32_t low = hexadecimal(4); low >= 0xDC00 && low <= 0xDFFF)
          return 0x10000 + ((high - 0xD800) << 10 | (low - 0xDC00));
      refuse("the surrogate pair before this is incomplete");
    }
    case 'U':
      return hexadecimal(8);
    case 'c': {
      const char32_t letter = rest_.empty() ? 0 : character();
      if (letter < 0x80 && std::isalpha(static_cast<int>(letter))) return letter & 0x1F;
      refuse("\\c must be followed by a letter");
    }
    case 'b':
      if (is_in_set) return '\b';
      [[fallthrough]];
    default:
      if (is_punctuation(c) || c == ' ') return c;
      refuse(fmt::format("engines read the escape before this differently: \\{}",
                         c < 0x80 ? static_cast<char>(c) : '?'));
  }
}

// Takes `num_digits` hexadecimal digits; if 0, all digits up to a closing brace, and the brace.
char32_t RegexParser::hexadecimal(size_t num_digits) {
  const size_t end = num_digits > 0 ? num_digits : rest_.find('}');
  const auto found = end == std::string_view::npos || rest_.size() < end
                         ? std::nullopt
                         : hexadecimal_character(rest_.substr(0, end));
  if (!found) refuse("expected the hexadecimal number of a character");
  rest_.remove_prefix(end + (num_digits == 0));
  return *found;
}

CodePoints RegexParser::property(bool is_complement) {
  const std::string_view whole = rest_;
  std::string name;
  if (take("{")) {
    const size_t end = rest_.find('}');
    if (end == std::string_view::npos) refuse("the name of a property is not closed");
    name = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
  } else if (!rest_.empty()) {
    name = rest_.substr(0, 1);
    rest_.remove_prefix(1);
  }
  const bool is_negated = name.starts_with('^');
  const CodePoints* found = unicode_property(name.substr(is_negated), expressions_.fuel());
  if (found == nullptr) {
    rest_ = whole;
    refuse("unsupported property; supported are categories such as L or Nd and scripts such as Greek");
  }
  expressions_.fuel().spend(4 * found->ranges().size());  // pays for copying and sorting the ranges
  return is_complement != is_negated ? found->complement() : *found;
}

CodePoints RegexParser::posix_class() {
  static constexpr struct {
    std::string_view name;
    std::string_view ranges;  // pairs of first and last character
  } kClasses[]{{"alnum", "09AZaz"},  {"alpha", "AZaz"},     {"blank", "\t\t  "}, {"digit", "09"},
               {"lower", "az"},      {"punct", "!/:@[`{~"}, {"space", "\t\r  "}, {"upper", "AZ"},
               {"word", "09AZ__az"}, {"xdigit", "09AFaf"}};
  for (const auto& [name, ranges] : kClasses)
    if (take(fmt::format("[:{}:]", name))) {
      CodePoints set;
      for (size_t i = 0; i < ranges.size(); i += 2)
        set.add(static_cast<unsigned char>(ranges[i]), static_cast<unsigned char>(ranges[i + 1]));
      return set;
    }
  refuse("unknown character class");
}

CodePoints RegexParser::set() {
  const std::string_view whole = rest_;
  rest_.remove_prefix(1);
  const bool is_complement = take("^");
  // A set is read wide (characters that any engine matches) or narrow (characters that all engines match).
  // The complement of a wide set is narrow, so the classes in [^...] are read the opposite way.
  const bool reads_wide = is_wide() != is_complement;
  CodePoints found;
  if (rest_.starts_with("]"))
    refuse("engines read this set differently; put a backslash before its first bracket");
  while (!take("]")) {
    if (rest_.empty()) {
      rest_ = whole;
      refuse("a set is not closed");
    }
    if (rest_.starts_with("[:") && !is_search()) {
      found.add(posix_class());
      continue;
    }
    if (!is_search() &&
        std::ranges::any_of(kReadDifferently, [&](auto text) { return rest_.starts_with(text); }))
      refuse("engines read this differently in a set; put a backslash before it");
    if (rest_[0] == '\\' && rest_.size() > 1) {
      if (const auto inner = class_escape(rest_[1], reads_wide)) {
        rest_.remove_prefix(2);
        found.add(*inner);
        continue;
      }
      if (rest_[1] == 'p' || rest_[1] == 'P') {
        const bool is_not = rest_[1] == 'P';
        rest_.remove_prefix(2);
        found.add(property(is_not));
        continue;
      }
    }
    const char32_t first = set_member();
    if (rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']') {
      rest_.remove_prefix(1);
      if (rest_[0] == '\\' && rest_.size() > 1 &&
          (class_escape(rest_[1], false) || rest_[1] == 'p' || rest_[1] == 'P'))
        refuse("a class cannot end a range");
      const char32_t last = set_member();
      if (first > last) refuse("the range before this ends before it begins");
      found.add(first, last);
    } else {
      found.add(first, first);
    }
  }
  if (options_.ignores_case) found.add_other_case();
  return is_complement ? found.complement() : found;
}

char32_t RegexParser::set_member() {
  if (!take("\\")) return character();
  if (rest_.empty()) refuse("a set is not closed");
  return escaped_character(true);
}

}  // namespace nibble::grammar
