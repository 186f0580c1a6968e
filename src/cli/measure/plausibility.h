// Finds misleading figures: shares of bandwidth for data that fits into the caches, and impossible results.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/measure/speed_tests.h"

namespace nibble::cli {

// Amount of data that each repetition reads again. `cache_bytes`: last-level cache; nullopt: unknown.
struct Reuse {
  size_t bytes{0};
  std::optional<size_t> cache_bytes;

  bool fits() const { return cache_bytes && bytes <= *cache_bytes; }
};

// Returns "in caches" if the data fits into the caches, so that `share` says nothing about memory. Returns
// "over 100 %" if the data does not fit and the share is impossible; otherwise empty.
std::string_view note_of_share(double share, const Reuse& reuse);

// Returns a sentence if the share is over 100 % although the data exceeds the caches; otherwise empty.
std::string impossible_share(std::string_view name, double share, const Reuse& reuse);
std::string in_caches_text(const Reuse& reuse);  // a line below the table that explains "in caches"

// Returns a line per impossible result: a share over 100 % although the data exceeds the caches, a longer
// test that took less time, or a test with more tokens in the KV cache that was faster beyond the noise.
std::vector<std::string> contradictions(std::span<const BenchResult> results, double read_bandwidth,
                                        const Reuse& reuse);

}  // namespace nibble::cli
