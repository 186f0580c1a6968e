#pragma once

#include <vector>

namespace nibble::grammar {

inline constexpr char32_t kLastCodePoint{0x10FFFF};

struct CodePointRange {
  char32_t first, last;
  bool operator==(const CodePointRange&) const = default;
};

class CodePoints {
 public:
  CodePoints() = default;
  CodePoints(std::initializer_list<CodePointRange> ranges);
  static const CodePoints& all();  // all scalar values, without surrogates

  void add(char32_t first, char32_t last);  // skips surrogates
  void add(const CodePoints& other);
  void add_other_case();  // adds the other case of each ASCII letter

  CodePoints complement() const;
  CodePoints intersection(const CodePoints& other) const;
  bool contains(char32_t code_point) const;
  bool empty() const { return ranges_.empty(); }
  // Returns the ranges, which are sorted and neither overlap nor are adjacent.
  const std::vector<CodePointRange>& ranges() const { return ranges_; }
  bool operator==(const CodePoints&) const = default;

 private:
  void add_range(CodePointRange range);
  std::vector<CodePointRange> ranges_;
};

}  // namespace nibble::grammar
