// Checks every row of the kernel table against plain loops on the host (src/backend/cuda/verify/checks.h). Needs a
// GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cuda/kernel_table.h"
#include "tests/backend/cuda/pretended.h"

namespace nibble::cuda {

void PrintTo(const KernelRow& row, std::ostream* out) { *out << name(row); }

namespace {

class CudaOps : public testing::TestWithParam<KernelRow> {};
INSTANTIATE_TEST_SUITE_P(, CudaOps, testing::ValuesIn(kernel_rows().begin(), kernel_rows().end()),
                         [](const auto& row) {
                           std::string text = name(row.param);
                           std::replace_if(
                               text.begin(), text.end(), [](char c) { return !std::isalnum(c); }, '_');
                           return text;
                         });

TEST_P(CudaOps, AgreesWithPlainLoopsOnEveryShape) {
  const Target target = this_target();
  if (!GetParam().families.include(target.family)) GTEST_SKIP() << "this row is for other families";
  const KernelFinding finding = GetParam().check(GetParam(), target);
  EXPECT_TRUE(finding.is_right()) << finding.worst << " times the bound at " << finding.at;
  fmt::print("{:<20} {:>12} numbers, worst {:.3f} of its bound\n  {}\n", name(GetParam()),
             finding.num_compared, finding.worst, finding.at);
}

}  // namespace
}  // namespace nibble::cuda
