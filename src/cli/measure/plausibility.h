// Finds misleading figures: bandwidth shares of data in caches, and contradictory results of a run.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/measure/speed_tests.h"

namespace nibble::cli {

struct Reuse {  // bytes that every repetition reads, and the size of the last-level cache
  size_t bytes{0};
  std::optional<size_t> cache_bytes;

  bool fits() const { return cache_bytes && bytes <= *cache_bytes; }
};

// Returns "in caches" if the data fits in them, so that the share is not one of memory bandwidth; "over 100
// %" if the data does not fit and the share is impossible; otherwise empty.
std::string_view note_of_share(double share, const Reuse& reuse);

// Returns a sentence for a share over 100 % although the data exceeds the caches; empty for other shares.
std::string impossible_share(std::string_view name, double share, const Reuse& reuse);
std::string in_caches_text(const Reuse& reuse);  // for tables

// Returns a line per impossible result: a share over 100 % although the data exceeds the caches, more tokens
// in less time, or a test that is faster, beyond the noise, with more tokens in the KV cache.
std::vector<std::string> contradictions(std::span<const BenchResult> results, double read_bandwidth,
                                        const Reuse& reuse);

}  // namespace nibble::cli
