// The table that bench prints: Markdown within 100 columns that grows as tests end.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cli/bench/report.h"

namespace nibble::cli {

// Several depths and several lengths make a grid: a row for each depth, a column for each length, medians in its cells. Anything else
// is a list: a row for each test, with its spread and a note.
class BenchTable {
 public:
  // `tests` as list_tests gives them: all lengths of a depth, depth by depth.
  BenchTable(const BenchSetup& setup, std::span<const BenchTest> tests);

  std::string head() const;
  std::string add(const BenchResult& result);  // what the table grows by
  // Below the table: what is to be doubted, which a grid has no column for, and what contradicts itself.
  std::string notes() const;

 private:
  bool is_grid() const { return num_columns_ > 1 && tests_.size() > num_columns_; }
  std::string row(const BenchResult& result) const;
  std::string cell(const BenchResult& result) const;

  const BenchSetup& setup_;
  std::vector<BenchTest> tests_;
  size_t num_columns_;
  std::vector<BenchResult> results_;
};

}  // namespace nibble::cli
