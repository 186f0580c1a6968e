// Checks every row of the kernel table against plain loops on the host (src/backend/cuda/verify/checks.h).
// Needs a GPU, or an emulated GPU (emulated/emulated_gpu.h).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backend/cuda/chip/device.h"
#include "backend/cuda/kernel_table.h"
#include "tests/backend/cuda/pretended.h"

namespace nibble::cuda {

void PrintTo(const KernelRow& row, std::ostream* out) { *out << name(row); }

namespace {

// Returns the table rows that this GPU can run. Without a GPU, all rows, so that tests can be listed.
std::vector<KernelRow> rows_to_check() {
  if (!why_no_device().empty()) return {kernel_rows().begin(), kernel_rows().end()};
  std::vector<KernelRow> rows;
  for (const KernelRow* row : rows_with_code_for(this_target(), kernel_rows())) {
    rows.push_back(*row);
    // A kernel for more rows than the largest case here also works with fewer rows.
    rows.back().from_rows = std::min(row->from_rows, kCaseLimits.num_tokens - 1);
  }
  return rows;
}

class CudaOps : public testing::TestWithParam<KernelRow> {};
INSTANTIATE_TEST_SUITE_P(, CudaOps, testing::ValuesIn(rows_to_check()), [](const auto& row) {
  std::string text = name(row.param);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return !std::isalnum(c); }, '_');
  return text;
});

TEST_P(CudaOps, AgreesWithPlainLoopsOnEveryShape) {
  const KernelFinding finding = verify::check_row(GetParam(), this_target(), kCaseLimits);
  EXPECT_TRUE(finding.is_right()) << finding.worst << " times the bound at " << finding.at;
  fmt::print("{:<20} {:>12} numbers, worst {:.3f} of its bound\n  {}\n", name(GetParam()),
             finding.num_compared, finding.worst, finding.at);
}

// Each of the two CTAs has more strips than its static share, so some strips are scheduled dynamically.
TEST(CudaOpsOnFewMultiprocessors, UnembeddingsAgreeWithPlainLoops) {
  Target target = this_target();
  target.num_multiprocessors = 2;
  for (const KernelRow& row : rows_to_check()) {
    if (row.operation != Operation::kUnembed) continue;
    const KernelFinding finding = verify::check_row(row, target, kCaseLimits);
    EXPECT_GT(finding.num_compared, 0u) << name(row);
    EXPECT_TRUE(finding.is_right()) << name(row) << ": " << finding.worst << " times the bound at "
                                    << finding.at;
  }
}

// Each of the three CTAs processes several experts one after another, with 2 to 8 columns. In one of the
// checked shapes a token chooses all experts, so all tokens share them. The other shapes have more experts
// than a token chooses.
TEST(CudaOpsOnFewMultiprocessors, ExpertsAgreeWithPlainLoopsInEveryBudget) {
  for (const Budget budget : {Budget::k99, Budget::k227}) {
    Target target = this_target();
    if (budget > target.budget) continue;
    target.budget = budget;
    target.num_multiprocessors = 3;
    for (const KernelRow& row : rows_to_check()) {
      const bool is_of_experts =
          row.operation == Operation::kExpertsUp || row.operation == Operation::kExpertsDown;
      const bool is_of_few = row.pass.columns == kMaxColumns && !row.pass.takes_image && row.to_rows > 1;
      if (!is_of_experts || !is_of_few) continue;
      const KernelFinding finding = verify::check_row(row, target, kCaseLimits);
      EXPECT_GT(finding.num_compared, 0u) << name(row);
      EXPECT_TRUE(finding.is_right()) << name(row) << " in " << kilobytes(budget) << " KB: " << finding.worst
                                      << " times the bound at " << finding.at;
    }
  }
}

// `nibble tune` also tries the kernels for many tokens with fewer rows than the table gives them. These
// kernels read the groups of pairs from memory. In a step with that few rows, decode kernels form the groups
// themselves.
TEST(CudaOpsOfABatch, AgreeWithPlainLoopsOnFewRows) {
  for (KernelRow row : rows_to_check()) {
    const bool is_of_experts = row.operation == Operation::kRoute || row.operation == Operation::kExpertsUp ||
                               row.operation == Operation::kExpertsDown;
    if (!is_of_experts || row.pass.columns != kBatchColumns || !row.pass.takes_image) continue;
    row.from_rows = 1;
    row.to_rows = kMaxColumns;
    const KernelFinding finding = verify::check_row(row, this_target(), kCaseLimits);
    EXPECT_GT(finding.num_compared, 0u) << name(row);
    EXPECT_TRUE(finding.is_right()) << name(row) << ": " << finding.worst << " times the bound at "
                                    << finding.at;
  }
}

// The kernels that add the updates of adapters are in no row of the table.
TEST(CudaOpsOfAdapters, AgreeWithPlainLoopsOnEveryShape) {
  const KernelFinding finding = verify::check_adapters(this_target(), kCaseLimits);
  EXPECT_GT(finding.num_compared, 100'000u);
  EXPECT_TRUE(finding.is_right()) << finding.worst << " times the bound at " << finding.at;
}

}  // namespace
}  // namespace nibble::cuda
