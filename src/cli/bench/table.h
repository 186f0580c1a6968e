// The table that `nibble bench` prints: Markdown, at most 100 columns wide, extended after each test.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cli/bench/report.h"

namespace nibble::cli {

// With several depths and several lengths the table is a grid of medians: a row per depth, a column per
// length. Otherwise the table has a row per test, with standard deviation and a note.
class BenchTable {
 public:
  // `tests` must be in the order of list_tests(): all lengths of a depth, then all lengths of the next depth.
  BenchTable(const BenchSetup& setup, std::span<const BenchTest> tests);

  std::string head() const;
  std::string add(const BenchResult& result);  // returns the text to append to the table
  // Returns the lines below the table: TFLOP/s of prefills, whether the data fits into the caches, and
  // contradictory results. For a grid, which has no column for notes, adds the notes of its cells.
  std::string notes() const;

 private:
  std::string prompt_flops() const;  // TFLOP/s of each prefill, in one line; empty without prefills
  bool is_grid() const { return num_columns_ > 1 && tests_.size() > num_columns_; }
  std::string row(const BenchResult& result) const;
  std::string cell(const BenchResult& result) const;

  const BenchSetup& setup_;
  std::vector<BenchTest> tests_;
  size_t num_columns_;
  std::vector<BenchResult> results_;
};

}  // namespace nibble::cli
