// Figures that are not what they look like: shares of a bandwidth that was never asked for, and results of one run that cannot be true
// together.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/measure/speed_tests.h"

namespace nibble::cli {

// What a measurement reads again and again, and the last cache before the memory that it should come from.
struct Reuse {
  size_t bytes{0};
  std::optional<size_t> cache_bytes;

  bool fits() const { return cache_bytes && bytes <= *cache_bytes; }
};

// Beside a share of the memory's bandwidth: "in caches" where what is read fits there, so that the share says nothing of the memory;
// "over 100 %" where it does not fit and can't be; empty otherwise.
std::string_view note_of_share(double share, const Reuse& reuse);

// The sentence for a share that is over 100 % out of caches; empty for any other.
std::string impossible_share(std::string_view name, double share, const Reuse& reuse);
// The sentence below a table of shares whose bytes fit into the caches.
std::string in_caches_text(const Reuse& reuse);

// What in one run can't be true together, a line each: a share over 100 % out of caches, more tokens in less time, a deeper KV cache
// that makes a test faster beyond the noise.
std::vector<std::string> contradictions(std::span<const BenchResult> results, double read_bandwidth,
                                        const Reuse& reuse);

}  // namespace nibble::cli
