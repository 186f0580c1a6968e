// The parser of regular expressions (regex.h); regex_characters.cpp reads characters, sets and escapes.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "grammar/automata/expressions.h"
#include "grammar/languages/regex_options.h"

namespace nibble::grammar {

class RegexParser {
 public:
  RegexParser(Expressions& expressions, std::string_view regex, const RegexOptions& options,
              const std::string& origin)
      : expressions_(expressions), rest_(regex), options_(options), origin_(origin) {}
  Expression parse();

 private:
  // Texts that a part of the expression matches: texts[0][0] anywhere, texts[1][0] only at the beginning of
  // the whole text (after ^), texts[0][1] only at its end (before $), and texts[1][1] only as the whole text.
  // So anchors may be anywhere except in a repeated part.
  struct Part {
    std::array<std::array<Expression, 2>, 2> texts{};
    bool has_anchor() const;
  };

  Part alternatives(uint32_t depth);
  Part sequence(uint32_t depth);
  std::optional<Part> atom(uint32_t depth);
  Part group(uint32_t depth);
  Part escape();
  Part repeated(Part part);
  bool counts(uint32_t& min, uint32_t& max);
  Part concat(const Part& a, const Part& b);
  Part of(Expression expression) const;
  Part characters(CodePoints set);

  CodePoints set();
  std::optional<CodePoints> class_escape(char letter, bool is_wide);
  CodePoints property(bool is_complement);
  CodePoints posix_class();
  char32_t set_member();
  char32_t escaped_character(bool is_in_set);
  char32_t hexadecimal(size_t num_digits);
  char32_t character();
  CodePoints dot() const;

  bool is_search() const { return options_.reading != RegexReading::kWhole; }
  bool is_wide() const { return options_.reading == RegexReading::kSearchWide; }
  bool take(std::string_view text);
  [[noreturn]] void refuse(std::string_view why) const;

  Expressions& expressions_;
  std::string_view rest_;  // the part of the expression that is not read yet
  const RegexOptions& options_;
  const std::string& origin_;
};

}  // namespace nibble::grammar
