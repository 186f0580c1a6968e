// Finds figures that mislead: shares of the memory's bandwidth where data came from caches, and results of one run that contradict each
// other.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/measure/speed_tests.h"

namespace nibble::cli {

// The bytes that a measurement reads in every repetition, and the size of the last cache before the memory.
struct Reuse {
  size_t bytes{0};
  std::optional<size_t> cache_bytes;

  bool fits() const { return cache_bytes && bytes <= *cache_bytes; }
};

// A note for a share of the memory's bandwidth: "in caches" where the data fits there, so that the share says nothing about the memory;
// "over 100 %" where it does not fit and the share is impossible; else empty.
std::string_view note_of_share(double share, const Reuse& reuse);

// A sentence about a share that is over 100 % though the data does not fit into the caches; empty for any other share.
std::string impossible_share(std::string_view name, double share, const Reuse& reuse);
// A sentence for a table of shares whose data fits into the caches.
std::string in_caches_text(const Reuse& reuse);

// Results of one run that can't be true, a line each: a share over 100 % though the data does not fit into the caches, more tokens in
// less time, or a deeper KV cache that makes a test faster beyond the noise.
std::vector<std::string> contradictions(std::span<const BenchResult> results, double read_bandwidth,
                                        const Reuse& reuse);

}  // namespace nibble::cli
