#include "grammar/automata/code_points.h"

#include <algorithm>

namespace nibble::grammar {
namespace {

constexpr char32_t kFirstSurrogate{0xD800}, kLastSurrogate{0xDFFF};

}  // namespace

CodePoints::CodePoints(std::initializer_list<CodePointRange> ranges) {
  for (const CodePointRange& range : ranges) add(range.first, range.last);
}

const CodePoints& CodePoints::all() {
  static const CodePoints all{{0, kLastCodePoint}};
  return all;
}

void CodePoints::add(char32_t first, char32_t last) {
  if (first < kFirstSurrogate) add_range({first, std::min<char32_t>(last, kFirstSurrogate - 1)});
  if (last > kLastSurrogate)
    add_range({std::max<char32_t>(first, kLastSurrogate + 1), std::min(last, kLastCodePoint)});
}

void CodePoints::add(const CodePoints& other) {
  for (const CodePointRange& range : other.ranges_) add_range(range);
}

void CodePoints::add_range(CodePointRange range) {
  if (range.first > range.last) return;
  const auto begin =
      std::lower_bound(ranges_.begin(), ranges_.end(), range.first,
                       [](const CodePointRange& a, char32_t first) { return a.last + 1 < first; });
  auto end = begin;
  while (end != ranges_.end() && end->first <= range.last + 1) {
    range = {std::min(range.first, end->first), std::max(range.last, end->last)};
    ++end;
  }
  ranges_.insert(ranges_.erase(begin, end), range);
}

void CodePoints::add_other_case() {
  const std::vector<CodePointRange> ranges = ranges_;
  const auto add_shifted = [&](char32_t first, char32_t last, int shift) {
    for (const CodePointRange& range : ranges)
      if (range.first <= last && range.last >= first)
        add_range({static_cast<char32_t>(static_cast<int>(std::max(range.first, first)) + shift),
                   static_cast<char32_t>(static_cast<int>(std::min(range.last, last)) + shift)});
  };
  add_shifted('a', 'z', 'A' - 'a');
  add_shifted('A', 'Z', 'a' - 'A');
}

CodePoints CodePoints::complement() const {
  CodePoints result;
  char32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.first > next) result.add(next, range.first - 1);
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) result.add(next, kLastCodePoint);
  return result;
}

CodePoints CodePoints::intersection(const CodePoints& other) const {
  CodePoints result;
  auto a = ranges_.begin(), b = other.ranges_.begin();
  while (a != ranges_.end() && b != other.ranges_.end()) {
    const char32_t first = std::max(a->first, b->first), last = std::min(a->last, b->last);
    if (first <= last) result.ranges_.push_back({first, last});
    (a->last < b->last ? a : b)++;
  }
  return result;
}

bool CodePoints::contains(char32_t code_point) const {
  const auto range = std::lower_bound(ranges_.begin(), ranges_.end(), code_point,
                                      [](const CodePointRange& a, char32_t c) { return a.last < c; });
  return range != ranges_.end() && range->first <= code_point;
}

}  // namespace nibble::grammar
