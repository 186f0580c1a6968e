// Finds the first state in which two runs of a model differ.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/diff/states.h"

namespace nibble::cli {

// The error of a row is |a - b| / |b|, at most 1; a value that is no number counts as 1.
struct StateDifference {
  std::string name;
  double error{0};  // root of the mean square over rows
  int worst_row{0};
  double worst_error{0};
};

// One difference for each state that both have, in the order of `a`. Throws InputError if tokens or shapes
// differ, or if no state is in both.
std::vector<StateDifference> compare_states(const States& a, const States& b);

// Returns the index of the first difference above the tolerance.
std::optional<size_t> first_above(const std::vector<StateDifference>& differences, double tolerance);

// A Markdown table with a row for each layer and a column for each operation, and a line with the first
// difference.
std::string difference_report(const std::vector<StateDifference>& differences, double tolerance);

}  // namespace nibble::cli
