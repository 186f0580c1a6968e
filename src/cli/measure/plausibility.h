// Finds misleading figures: shares of the memory bandwidth when the data came from caches, and results of one
// run that contradict each other.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/measure/speed_tests.h"

namespace nibble::cli {

// The bytes that every repetition of a measurement reads, and the size of the last-level cache.
struct Reuse {
  size_t bytes{0};
  std::optional<size_t> cache_bytes;

  bool fits() const { return cache_bytes && bytes <= *cache_bytes; }
};

// Returns a note on a share of the memory bandwidth: "in caches" if the data fits in them, so that the share
// says nothing about the memory; "over 100 %" if it does not fit and the share is impossible; otherwise
// empty.
std::string_view note_of_share(double share, const Reuse& reuse);

// Returns a sentence about a share that is over 100 % although the data does not fit into the
// caches; empty for any other share.
std::string impossible_share(std::string_view name, double share, const Reuse& reuse);
// Returns a sentence for a table of shares whose data fits into the caches.
std::string in_caches_text(const Reuse& reuse);

// Returns a line for each impossible result of a run: a share over 100 % although the data does not
// fit into the caches, more tokens in less time, or a test that is faster, beyond the noise, with
// more tokens in the KV cache.
std::vector<std::string> contradictions(std::span<const BenchResult> results, double read_bandwidth,
                                        const Reuse& reuse);

}  // namespace nibble::cli
