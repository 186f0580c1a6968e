#include "cli/nearest_name.h"

#include <algorithm>
#include <numeric>

namespace nibble::cli {
namespace {

// Levenshtein distance: letters to insert, delete or replace.
size_t num_slips(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // row[j]: from the first i letters of a to the first j of b
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

const std::string& nearest_name(std::string_view name, const std::vector<std::string>& names) {
  return *std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return num_slips(name, a) < num_slips(name, b);
  });
}

}  // namespace nibble::cli
