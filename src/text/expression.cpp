#include "text/expression.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "core/errors/error.h"
#include "text/unicode_16.h"

namespace nibble {
namespace {

class Translation {
 public:
  Translation(std::string_view expression, Categories categories, const std::string& origin)
      : rest_(expression), categories_(categories), origin_(origin) {}

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
    throw InputError(
        "{}: the split expression is not supported at '{}': {}. nibble supports expressions like those of "
        "o200k.",
        origin_, rest_.substr(0, 12), why);
  }

  void escape() {
    if (rest_.size() < 2) refuse("a backslash at the end");
    switch (rest_[1]) {
      // Not PCRE2's own \s: it contains U+180E, which Unicode 6.3 removed from White_Space.
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
        refuse("this escape has other meanings in other engines");
    }
  }

  // Translates \p{...} and \P{...} of these categories. Refuses other properties: a script, for example,
  // means Script_Extensions in PCRE2 but not in Oniguruma.
  void property() {
    constexpr std::array<std::string_view, 8> kCategories{"L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "N"};
    const auto category = std::ranges::find_if(kCategories, [&](std::string_view known) {
      return rest_.substr(2).starts_with(fmt::format("{{{}}}", known));
    });
    if (category == kCategories.end())
      refuse("only the categories L, Lu, Ll, Lt, Lm, Lo, M and N are supported");
    const bool is_negated = rest_[1] == 'P';
    if (is_in_class_ && is_negated) refuse("a negated category inside a set is not supported");
    rest_.remove_prefix(category->size() + 4);
    if (is_in_class_ && rest_.starts_with('-')) refuse("a hyphen after a category is not supported");
    if (!is_in_class_) pcre2_ += is_negated ? "[^" : "[";
    pcre2_ += fmt::format("\\p{{{}}}", *category);
    if (categories_ == Categories::kOfUnicode16) add_later_members(*category);
    if (!is_in_class_) pcre2_ += ']';
  }

  void add_later_members(std::string_view category) {
    for (const auto& [first, last, assigned] : assigned_since_unicode_14())
      if (assigned.starts_with(category))
        pcre2_ += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", uint32_t{first}, uint32_t{last});
  }

  void class_member() {
    if (rest_[0] == '[') refuse("a set inside a set is not supported");
    if (rest_.starts_with("&&")) refuse("an intersection of sets is not supported");
    if (rest_[0] == ']') is_in_class_ = false;
    copy(1);
  }

  void outside_class() {
    switch (rest_[0]) {
      case '[':
        is_in_class_ = true;
        copy(rest_.starts_with("[^") ? 2 : 1);
        if (rest_.starts_with("]")) refuse("an empty set is not supported");
        return;
      case '(':
        return group();
      case '{':
        return bounds();
      case '.':
      case '^':
      case '$':
        refuse("this has other meanings in other engines");
      default:
        copy(1);
    }
  }

  void group() {
    constexpr std::array<std::string_view, 6> kKnown{"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    const auto known =
        std::ranges::find_if(kKnown, [&](std::string_view start) { return rest_.starts_with(start); });
    if (known != kKnown.end()) return copy(known->size());
    if (rest_.starts_with("(?i:")) return words_of_any_case();
    if (rest_.starts_with("(?") || rest_.starts_with("(*"))
      refuse("this kind of group has other meanings in other engines");
    copy(1);
  }

  // Translates (?i:'s|'ve). ASCII letters only: engines fold the case of categories and ranges differently.
  void words_of_any_case() {
    const size_t close = rest_.find(')');
    const std::string_view words = rest_.substr(4, close == std::string_view::npos ? 0 : close - 4);
    const auto is_plain = [](char c) {
      return std::islower(static_cast<unsigned char>(c)) || c == '\'' || c == '|';
    };
    if (words.empty() || !std::ranges::all_of(words, is_plain))
      refuse("a case-insensitive group may contain only plain lower-case words");
    copy(close + 1);
  }

  // Translates {1,3}, {2} and {2,}. Refuses bounds without a first number or before a +: engines differ.
  void bounds() {
    const size_t close = rest_.find('}');
    const std::string_view inside = rest_.substr(1, close == std::string_view::npos ? 0 : close - 1);
    const bool is_bounds = !inside.empty() && std::isdigit(static_cast<unsigned char>(inside[0])) &&
                           inside.find_first_not_of("0123456789,") == std::string_view::npos &&
                           std::ranges::count(inside, ',') <= 1;
    if (!is_bounds || rest_.substr(close + 1).starts_with("+"))
      refuse("these repetition bounds have other meanings in other engines");
    copy(close + 1);
  }

  std::string_view rest_;  // the part of the expression that is not read yet
  const Categories categories_;
  const std::string& origin_;
  std::string pcre2_;
  bool is_in_class_{false};
};

}  // namespace

// The leftmost alternative that matches is used. The alternatives: a word, with an optional character before
// it and an optional contraction after it (ending in lower case, or starting in capitals); up to three
// digits; punctuation; line ends; spaces except the last one before a word; spaces.
constexpr std::string_view kO200kExpression{
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

std::string to_pcre2(std::string_view expression, Categories categories, const std::string& origin) {
  return Translation(expression, categories, origin).run();
}

}  // namespace nibble
