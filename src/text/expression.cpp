#include "text/expression.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "core/error.h"

namespace nibble {
namespace {

// Copies one construct after another from the expression to PCRE2's, or refuses it.
class Translation {
 public:
  Translation(std::string_view expression, const std::string& origin) : rest_(expression), origin_(origin) {}

  std::string run() {
    while (!rest_.empty()) {
      if (rest_[0] == '\\') {
        escape();
      } else if (is_in_class_) {
        class_member();
      } else {
        outside_class();
      }
    }
    return std::move(pcre2_);
  }

 private:
  void copy(size_t num_bytes) {
    pcre2_ += rest_.substr(0, num_bytes);
    rest_.remove_prefix(num_bytes);
  }

  void replace(size_t num_bytes, std::string_view by) {
    pcre2_ += by;
    rest_.remove_prefix(num_bytes);
  }

  [[noreturn]] void refuse(std::string_view why) const {
    throw InputError("{}: the split expression has '{}', {}. nibble splits as o200k and its kin do.", origin_,
                     rest_.substr(0, 12), why);
  }

  void escape() {
    if (rest_.size() < 2) refuse("which escapes nothing");
    switch (rest_[1]) {
      // PCRE2's own \s has U+180E, which lost Unicode's White_Space in version 6.3.
      case 's':
        return replace(2, "\\p{White_Space}");
      case 'S':
        return replace(2, "\\P{White_Space}");
      case 'p':
      case 'P':
        return property();
      case 'r':
      case 'n':
      case 't':
        return copy(2);
      default:
        if (std::ispunct(static_cast<unsigned char>(rest_[1]))) return copy(2);
        refuse("an escape that other engines read differently");
    }
  }

  // A general category, such as \p{L} or \p{Lu}. Scripts are out: PCRE2 means their extensions, Oniguruma does not.
  void property() {
    const size_t close = rest_.find('}');
    const bool is_category = rest_.size() > 3 && rest_[2] == '{' && (close == 4 || close == 5) &&
                             std::isupper(static_cast<unsigned char>(rest_[3])) &&
                             (close == 4 || std::islower(static_cast<unsigned char>(rest_[4])));
    if (!is_category) refuse("which is not a general category of Unicode");
    copy(close + 1);
  }

  void class_member() {
    if (rest_[0] == '[') refuse("a set inside a set");
    if (rest_.starts_with("&&")) refuse("an intersection of sets");
    if (rest_[0] == ']') is_in_class_ = false;
    copy(1);
  }

  void outside_class() {
    switch (rest_[0]) {
      case '[':
        is_in_class_ = true;
        copy(rest_.starts_with("[^") ? 2 : 1);
        if (rest_.starts_with("]")) refuse("an empty set");
        return;
      case '(':
        return group();
      case '{':
        return bounds();
      case '.':
      case '^':
      case '$':
        refuse("which other engines read differently");
      default:
        copy(1);
    }
  }

  void group() {
    constexpr std::array<std::string_view, 7> kKnown{"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    const auto known =
        std::find_if(kKnown.begin(), kKnown.end(), [&](auto start) { return rest_.starts_with(start); });
    if (known != kKnown.end()) return copy(known->size());
    if (rest_.starts_with("(?") || rest_.starts_with("(*"))
      refuse("a group that other engines read differently");
    copy(1);
  }

  // {1,3}, {2} and {2,}: without the number before the comma, or with a + behind, the engines differ.
  void bounds() {
    const size_t close = rest_.find('}');
    const std::string_view inside = rest_.substr(1, close == std::string_view::npos ? 0 : close - 1);
    const bool is_bounds = !inside.empty() && std::isdigit(static_cast<unsigned char>(inside[0])) &&
                           inside.find_first_not_of("0123456789,") == std::string_view::npos &&
                           std::count(inside.begin(), inside.end(), ',') <= 1;
    if (!is_bounds || rest_.substr(close + 1).starts_with("+"))
      refuse("bounds that other engines read differently");
    copy(close + 1);
  }

  std::string_view rest_;  // not yet read
  const std::string& origin_;
  std::string pcre2_;
  bool is_in_class_{false};
};

}  // namespace

// One alternation, leftmost first: words with what stands before them and a contraction behind (twice: ending in lower
// case, or wholly in capitals), up to three digits, punctuation, line ends, spaces but the last before a word, spaces.
constexpr std::string_view kO200kExpression{
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

std::string to_pcre2(std::string_view expression, const std::string& origin) {
  return Translation(expression, origin).run();
}

}  // namespace nibble
