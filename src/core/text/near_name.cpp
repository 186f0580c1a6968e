#include "core/text/near_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace nibble {
namespace {

constexpr size_t kLettersPerSlip{3};

// Returns Levenshtein's distance, except that swapping two adjacent letters counts once (optimal string
// alignment).
size_t num_slips(std::string_view a, std::string_view b) {
  // row[j]: distance between the first i letters of a and the first j of b. `above` is the row of i - 1,
  // `above_that` the row of i - 2.
  std::vector<size_t> above_that, above, row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    above_that = std::move(above);
    above = row;
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = above[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({replaced, row[j - 1] + 1, above[j] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], above_that[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string> near_name(std::string_view name, const std::vector<std::string>& names) {
  std::optional<std::string> nearest;
  size_t fewest = name.size() / kLettersPerSlip + 1;
  for (const std::string& other : names) {
    const size_t slips = num_slips(name, other);
    if (slips >= fewest) continue;
    fewest = slips;
    nearest = other;
  }
  return nearest;
}

std::string guess(std::string_view name, const std::vector<std::string>& names, std::string_view prefix) {
  const std::optional<std::string> nearest = near_name(name, names);
  return nearest ? fmt::format(": did you mean {}{}?", prefix, *nearest) : ".";
}

}  // namespace nibble
