// Tests that `nibble tune` finds every kernel correct for all numbers of rows that the kernel can take, and
// measures a time for each. Needs a GPU: not part of ./test (docs/gpu.md).
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/tune/trials.h"
#include "tests/backend/cuda/pretended.h"
#include "tests/backend/fulfilment.h"

namespace nibble::cuda {
namespace {

TEST(CudaTrials, EveryKernelIsRightAndTimedWithRowsThatTheTableGivesToOthers) {
  size_t num_reports = 0, total = 0;
  const std::vector<int> rows{2, 7, 9, 24, 129, 300};  // 9 rows run in the graph of 12 rows
  const ReportProgress report = [&](size_t done, size_t all) {
    ++num_reports;
    EXPECT_LE(done, all);
    total = done == all ? all : 0;
  };
  const KernelTrials tried = try_kernels(open_shared("models/tiny-gpt-oss")->config, BackendOptions{},
                                         pretended(), {rows, 1, report});
  EXPECT_EQ(total, 2 * rows.size());
  EXPECT_EQ(num_reports, 2 * rows.size());
  std::set<std::pair<Operation, int>> timed;
  std::set<std::string> experts_up_of_12;
  for (const KernelTrial& trial : tried.trials) {
    EXPECT_EQ(trial.fault, "") << trial.kernel << " with " << trial.num_rows << " rows";
    EXPECT_GT(trial.microseconds, 0) << trial.kernel << " with " << trial.num_rows << " rows";
    timed.emplace(trial.operation, trial.num_rows);
    if (trial.operation == Operation::kExpertsUp && trial.num_rows == 12)
      experts_up_of_12.insert(trial.kernel);
  }
  for (const Operation operation : {Operation::kQkv, Operation::kProject, Operation::kRoute,
                                    Operation::kExpertsUp, Operation::kExpertsDown})
    for (const int num_rows : {2, 7, 12, 24, 129, 300})
      EXPECT_TRUE(timed.contains({operation, num_rows})) << name(operation) << ", " << num_rows << " rows";
  EXPECT_GE(experts_up_of_12.size(), 2u);
  EXPECT_FALSE(tried.chosen.empty());
  EXPECT_FALSE(tried.fastest.empty());
}

}  // namespace
}  // namespace nibble::cuda
