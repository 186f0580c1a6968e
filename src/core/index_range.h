// Consecutive indices. C++17, for device code.
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

// The index, counted from the range's first; -1 where the range does not have it.
constexpr int number_of(const IndexRange& range, int index) {
  return range.has(index) ? index - range.first : -1;
}

}  // namespace nibble
