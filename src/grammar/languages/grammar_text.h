// A cursor over a grammar's text, for the parsers of gbnf.h and lark.h. To take text is to move past it.
#pragma once

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "grammar/automata/code_points.h"
#include "grammar/languages/one_line.h"
#include "grammar/limits.h"
#include "text/utf8.h"

namespace nibble::grammar {

// Returns the character with this code point, given as one to eight hexadecimal digits; nullopt for other
// text.
inline std::optional<char32_t> hexadecimal_character(std::string_view digits) {
  if (digits.empty() || digits.size() > 8 ||
      !std::ranges::all_of(digits, [](char c) { return std::isxdigit(static_cast<unsigned char>(c)); }))
    return std::nullopt;
  const auto value = static_cast<char32_t>(std::stoul(std::string(digits), nullptr, 16));
  return value <= kLastCodePoint ? std::optional(value) : std::nullopt;
}

class GrammarText {
 public:
  // `what` is the start of error messages: "gbnf".
  GrammarText(std::string_view text, std::string_view what) : whole_(text), rest_(text), what_(what) {
    if (text.size() > kMaxSourceBytes)
      throw InputError("{}: the grammar is longer than {} MiB", what, kMaxSourceBytes >> 20);
    if (well_formed_prefix(text) != text.size()) throw InputError("{}: the grammar is not valid UTF-8", what);
  }

  bool is_at_end() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }
  char peek() const { return rest_.empty() ? '\0' : rest_[0]; }
  void skip(size_t num_bytes) { rest_.remove_prefix(num_bytes); }
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    skip(text.size());
    return true;
  }
  template <typename Predicate>
  std::string_view take_while(const Predicate& is_part) {
    const auto end = std::ranges::find_if_not(rest_, is_part);
    const std::string_view taken = rest_.substr(0, static_cast<size_t>(end - rest_.begin()));
    skip(taken.size());
    return taken;
  }
  void skip_line() { skip(std::min(rest_.find('\n'), rest_.size())); }
  char32_t take_character() {
    const Character first = first_character(rest_);
    skip(first.num_bytes);
    return first.code_point;
  }

  // Takes decimal digits and returns their value, or nullopt if none follow.
  std::optional<uint32_t> take_number() {
    const std::string_view digits = take_while([](char c) { return c >= '0' && c <= '9'; });
    if (digits.empty()) return std::nullopt;
    if (digits.size() > 9) refuse("the number is too large");
    return static_cast<uint32_t>(std::stoul(std::string(digits)));
  }

  // Calls `skip_blanks`, then takes `text`. If `text` does not follow, takes nothing, not even blanks.
  template <typename SkipBlanks>
  bool take_behind(const SkipBlanks& skip_blanks, std::string_view text) {
    const std::string_view before = rest_;
    skip_blanks();
    if (take(text)) return true;
    rest_ = before;
    return false;
  }
  char32_t take_hexadecimal(size_t num_digits) {
    const std::optional<char32_t> character = hexadecimal_character(rest_.substr(0, num_digits));
    if (!character || rest_.size() < num_digits) refuse("expected the hexadecimal number of a character");
    skip(num_digits);
    return *character;
  }

  // Takes an escape without its backslash: one of `letters`, which are some of nrtfv0; the number of a
  // character (xHH, uHHHH, UHHHHHHHH); or ASCII punctuation, which stands for itself.
  char32_t take_escape(std::string_view letters) {
    constexpr std::pair<char32_t, char32_t> kMeanings[]{{'n', '\n'}, {'r', '\r'}, {'t', '\t'},
                                                        {'f', '\f'}, {'v', '\v'}, {'0', '\0'}};
    const char32_t letter = take_character();
    for (const auto& [known, meaning] : kMeanings)
      if (letter == known && letters.find(static_cast<char>(known)) != std::string_view::npos) return meaning;
    if (const size_t num_digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0)
      return take_hexadecimal(num_digits);
    if (letter >= 0x80 || !std::ispunct(static_cast<int>(letter)))
      refuse("the escape before this is unknown");
    return letter;
  }

  [[noreturn]] void refuse(std::string_view why) const {
    const std::string_view before = whole_.substr(0, whole_.size() - rest_.size());
    throw InputError("{}: line {}, at '{}': {}", what_, std::ranges::count(before, '\n') + 1,
                     one_line(rest_, 24), why);
  }

 private:
  std::string_view whole_, rest_, what_;
};

}  // namespace nibble::grammar
