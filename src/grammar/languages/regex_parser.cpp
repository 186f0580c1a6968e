#include "grammar/languages/regex_parser.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "core/errors/error.h"
#include "grammar/languages/one_line.h"
#include "grammar/limits.h"
#include "text/utf8.h"

namespace nibble::grammar {

bool RegexParser::Part::has_anchor() const {
  return texts[0][1] != Expression::kNothing || texts[1][0] != Expression::kNothing ||
         texts[1][1] != Expression::kNothing;
}

RegexParser::Part RegexParser::of(Expression expression) const {
  Part part;
  part.texts[0][0] = expression;
  return part;
}

RegexParser::Part RegexParser::characters(CodePoints set) {
  if (options_.ignores_case) set.add_other_case();
  return of(expressions_.set(set));
}

void RegexParser::refuse(std::string_view why) const {
  throw InputError("{}: the regular expression is not accepted at '{}': {}", origin_, one_line(rest_, 16),
                   why);
}

bool RegexParser::take(std::string_view text) {
  if (!rest_.starts_with(text)) return false;
  rest_.remove_prefix(text.size());
  return true;
}

char32_t RegexParser::character() {
  const Character first = first_character(rest_);
  rest_.remove_prefix(first.num_bytes);
  return first.code_point;
}

Expression RegexParser::parse() {
  if (well_formed_prefix(rest_) != rest_.size())
    throw InputError("{}: the regular expression is not valid UTF-8", origin_);
  if (rest_.size() > kMaxSourceBytes)
    throw InputError("{}: the regular expression is longer than {} bytes", origin_, kMaxSourceBytes);
  const Part whole = alternatives(0);
  if (!rest_.empty()) refuse("this closes no group");
  std::vector<Expression> found;
  for (const bool begins : {false, true})
    for (const bool ends : {false, true}) {
      Expression text = whole.texts[begins][ends];
      if (text == Expression::kNothing) continue;
      if (is_search() && !begins) text = expressions_.concat(Expression::kAnything, text);
      if (is_search() && !ends) text = expressions_.concat(text, Expression::kAnything);
      found.push_back(text);
    }
  return expressions_.any_of(found);
}

RegexParser::Part RegexParser::alternatives(uint32_t depth) {
  if (depth > kMaxDepth) refuse(fmt::format("groups are nested more than {} levels deep", kMaxDepth));
  std::array<std::array<std::vector<Expression>, 2>, 2> all;
  do {
    const Part part = sequence(depth);
    for (const int begins : {0, 1})
      for (const int ends : {0, 1}) all[begins][ends].push_back(part.texts[begins][ends]);
  } while (take("|"));
  Part part;
  for (const int begins : {0, 1})
    for (const int ends : {0, 1}) part.texts[begins][ends] = expressions_.any_of(all[begins][ends]);
  return part;
}

RegexParser::Part RegexParser::sequence(uint32_t depth) {
  std::vector<Part> parts;
  while (std::optional<Part> part = atom(depth)) parts.push_back(*part);
  Part result = of(Expression::kEmptyText);
  for (size_t i = parts.size(); i-- > 0;) result = concat(parts[i], result);
  return result;
}

// Joins two parts. No text may follow a part that is bound to the end, or precede one bound to the beginning.
RegexParser::Part RegexParser::concat(const Part& a, const Part& b) {
  if (!a.has_anchor() && !b.has_anchor()) return of(expressions_.concat(a.texts[0][0], b.texts[0][0]));
  const auto if_empty = [&](Expression text) {
    return expressions_.accepts_empty(text) ? Expression::kEmptyText : Expression::kNothing;
  };
  std::array<std::array<std::vector<Expression>, 2>, 2> all;
  for (const int a_begins : {0, 1})
    for (const int a_ends : {0, 1})
      for (const int b_begins : {0, 1})
        for (const int b_ends : {0, 1}) {
          Expression first = a.texts[a_begins][a_ends], second = b.texts[b_begins][b_ends];
          if (b_begins) first = if_empty(first);
          if (a_ends) second = if_empty(second);
          if (first == Expression::kNothing || second == Expression::kNothing) continue;
          all[a_begins | b_begins][a_ends | b_ends].push_back(expressions_.concat(first, second));
        }
  Part part;
  for (const int begins : {0, 1})
    for (const int ends : {0, 1}) part.texts[begins][ends] = expressions_.any_of(all[begins][ends]);
  return part;
}

// Parses a part of a sequence. Returns nullopt at the end of the sequence.
std::optional<RegexParser::Part> RegexParser::atom(uint32_t depth) {
  if (rest_.empty() || rest_[0] == '|' || rest_[0] == ')') return std::nullopt;
  expressions_.fuel().spend(4);
  Part part;
  switch (rest_[0]) {
    case '(':
      part = group(depth);
      break;
    case '[':
      part = characters(set());
      break;
    case '.':
      rest_.remove_prefix(1);
      part = of(expressions_.set(dot()));
      break;
    case '^':
      rest_.remove_prefix(1);
      part.texts[1][0] = Expression::kEmptyText;
      break;
    case '$':
      rest_.remove_prefix(1);
      part.texts[0][1] = Expression::kEmptyText;
      break;
    case '\\':
      part = escape();
      break;
    case '*':
    case '+':
    case '?':
      refuse("there is nothing to repeat");
    case '{': {
      const std::string_view brace = rest_;
      uint32_t min = 0, max = 0;
      const bool is_count = counts(min, max);
      rest_ = brace;
      if (is_count) refuse("there is nothing to repeat");
      if (!is_search() && brace.starts_with("{,") && brace.size() > 2 &&
          (brace[2] == '}' || std::isdigit(static_cast<unsigned char>(brace[2]))))
        refuse("some engines read this as a count from 0; write {0, or put a backslash before it");
      [[fallthrough]];  // a brace that does not start a count is an ordinary character
    }
    default: {
      const char32_t c = character();
      part = characters({{c, c}});
    }
  }
  return repeated(part);
}

RegexParser::Part RegexParser::group(uint32_t depth) {
  if (take("(?:")) {
  } else if (rest_.starts_with("(?<=") || rest_.starts_with("(?<!") || rest_.starts_with("(?=") ||
             rest_.starts_with("(?!")) {
    refuse("lookaround is not supported");
  } else if (rest_.starts_with("(?P<") || rest_.starts_with("(?<")) {
    const size_t end = rest_.find('>');
    if (end == std::string_view::npos) refuse("the name of a group is not closed");
    rest_.remove_prefix(end + 1);
  } else if (rest_.starts_with("(?") || rest_.starts_with("(*")) {
    refuse("this kind of group is not supported; use (...), (?:...) or (?<name>...)");
  } else {
    rest_.remove_prefix(1);
  }
  const Part part = alternatives(depth + 1);
  if (!take(")")) refuse("a group is not closed");
  return part;
}

RegexParser::Part RegexParser::repeated(Part part) {
  uint32_t min = 1, max = 1;
  if (take("*")) {
    min = 0, max = kUnlimited;
  } else if (take("+")) {
    max = kUnlimited;
  } else if (take("?")) {
    min = 0;
  } else if (!counts(min, max)) {
    return part;
  }
  if (take("?")) {  // laziness does not change the matched texts
  } else if (rest_.starts_with("+")) {
    refuse("possessive quantifiers are not supported");
  }
  uint32_t more_min = 0, more_max = 0;
  if (rest_.starts_with("*") || rest_.starts_with("?") || counts(more_min, more_max))
    refuse("a quantifier follows another; put the first into a group");
  if (max > 1 && part.has_anchor())
    refuse("the repeated group before this contains ^ or $, which is not supported");
  if (max == 1 && min == 1) return part;
  if (!part.has_anchor()) return of(expressions_.repeat(part.texts[0][0], min, max));
  if (max == 0) return of(Expression::kEmptyText);
  part.texts[0][0] = expressions_.any_of(part.texts[0][0], Expression::kEmptyText);
  return part;
}

// Takes {m}, {m,} or {m,n}. Returns false and takes nothing if none of these follows.
bool RegexParser::counts(uint32_t& min, uint32_t& max) {
  if (!rest_.starts_with("{")) return false;
  const size_t end = rest_.find('}');
  if (end == std::string_view::npos) return false;
  const std::string_view inside = rest_.substr(1, end - 1);
  const size_t comma = inside.find(',');
  const auto number = [&](std::string_view digits) -> std::optional<uint32_t> {
    if (digits.empty() || !std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; }))
      return std::nullopt;
    uint64_t value = 0;
    for (const char digit : digits)
      value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(digit - '0'), kUnlimited);
    if (value >= kUnlimited / 2) refuse("the count is too large");
    return static_cast<uint32_t>(value);
  };
  const std::optional<uint32_t> least = number(inside.substr(0, comma));
  if (!least) return false;
  std::optional<uint32_t> most = least;
  if (comma != std::string_view::npos)
    most = comma + 1 == inside.size() ? kUnlimited : number(inside.substr(comma + 1));
  if (!most) return false;
  if (*least > *most) refuse("the minimum count exceeds the maximum");
  min = *least, max = *most;
  rest_.remove_prefix(end + 1);
  return true;
}

}  // namespace nibble::grammar
