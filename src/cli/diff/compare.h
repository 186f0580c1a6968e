// Finds the first state in which two runs of a model differ.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/diff/states.h"

namespace nibble::cli {

// Difference of one state. A row's error is |a - b| / |b|, at most 1; an error of NaN counts as 1.
struct StateDifference {
  std::string name;
  double error{0};  // root mean square of the errors of all rows
  int worst_row{0};
  double worst_error{0};
};

// Returns a difference for each state that is in both, in the order of `a`. Throws InputError if tokens or
// shapes differ, or if no state is in both.
std::vector<StateDifference> compare_states(const States& a, const States& b);

// Returns the index of the first difference above the tolerance.
std::optional<size_t> first_above(const std::vector<StateDifference>& differences, double tolerance);

// Returns a Markdown table with a row per layer and a column per operation, and a line about the first
// difference.
std::string difference_report(const std::vector<StateDifference>& differences, double tolerance);

}  // namespace nibble::cli
