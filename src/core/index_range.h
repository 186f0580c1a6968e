// Consecutive indices.
#pragma once

namespace nibble {

struct IndexRange {
  int first{0}, count{0};
  constexpr int end() const { return first + count; }
  constexpr bool has(int index) const { return index >= first && index < end(); }
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

}  // namespace nibble
