// A range of consecutive indices. C++17 only: device code includes it.
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

// Returns `index` relative to the first of the range, or -1 if it is not in the range.
constexpr int number_of(const IndexRange& range, int index) {
  return range.has(index) ? index - range.first : -1;
}

}  // namespace nibble
