// A range of consecutive indices. Written in C++17, because device code includes this file.
#pragma once

namespace nibble {

struct IndexRange {
  int first{0}, count{0};
  constexpr int end() const { return first + count; }
  constexpr bool has(int index) const { return index >= first && index < end(); }
  friend constexpr bool operator==(const IndexRange& a, const IndexRange& b) {
    return a.first == b.first && a.count == b.count;
  }
};

// Returns the position of `index` in the range, from 0; -1 if outside.
constexpr int number_of(const IndexRange& range, int index) {
  return range.has(index) ? index - range.first : -1;
}

}  // namespace nibble
