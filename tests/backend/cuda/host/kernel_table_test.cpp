// Tests which rows of the kernel table apply to each GPU family. Needs no GPU.
#include "backend/cuda/kernel_table.h"
#include "backend/cuda/chip/caps.h"
#include "backend/cuda/cuda_options.h"
#include "backend/cuda/route/args.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "backend/cuda/plan.h"

namespace nibble::cuda {
namespace {

KernelRow table_row(const char* kernel, Families families) {
  return {.operation = Operation::kQkv,
          .weights = Format::kBf16,
          .families = families,
          .pass = kFewPass,
          .launcher = &qkv,
          .kernel = kernel,
          .reason = "a test"};
}

// Returns the names of the rows that a family can run.
std::set<std::string> valid_on(Family family, std::span<const KernelRow> rows) {
  std::set<std::string> kernels;
  for (const KernelRow* row : rows_valid_for(family, rows)) kernels.insert(row->kernel);
  return kernels;
}

TEST(CudaKernelTable, ARowOfOneFamilyIsNotChosenOnALaterOne) {
  const KernelRow rows[]{table_row("everywhere", kEverywhere), table_row("hopper", {Family::kSm90}),
                         table_row("blackwell", {Family::kSm120, Family::kSm121})};
  using Kernels = std::set<std::string>;
  EXPECT_EQ(valid_on(Family::kSm80, rows), Kernels{"everywhere"});
  EXPECT_EQ(valid_on(Family::kSm89, rows), Kernels{"everywhere"});
  EXPECT_EQ(valid_on(Family::kSm90, rows), (Kernels{"everywhere", "hopper"}));
  EXPECT_EQ(valid_on(Family::kSm100, rows), Kernels{"everywhere"});
  EXPECT_EQ(valid_on(Family::kSm120, rows), (Kernels{"everywhere", "blackwell"}));
  EXPECT_EQ(valid_on(Family::kSm121, rows), (Kernels{"everywhere", "blackwell"}));
}

// Expects exactly one table row for every number of rows, from the smallest with which an operation is
// launched. For many tokens this row uses mma.sync, or on Hopper wgmma if `by_wgmma`.
void expect_every_number_of_rows_once(Family family, bool by_wgmma) {
  Target target = target_of(known_gpu(name(family)), {});
  target.has_wgmma = by_wgmma;
  std::map<std::pair<Operation, Format>, std::set<const KernelRow*>> chosen;
  for (const Format dense : {Format::kBf16, Format::kE4m3, Format::kMxfp4})
    for (const Format kv : {Format::kBf16, Format::kE4m3}) {
      BackendOptions options;
      options.dense = {dense, dense, dense};
      options.kv_format = kv;
      const Plan plan(*named_config("gpt-oss-120b"), options, target, "a test");
      for (const KernelRow* row : plan.chosen()) chosen[{row->operation, row->weights}].insert(row);
    }
  std::map<std::pair<Operation, Format>, std::map<int, int>> ranges;
  for (const auto& [operation, rows] : chosen)
    for (const KernelRow* row : rows)
      EXPECT_TRUE(ranges[operation].emplace(row->from_rows, row->to_rows).second)
          << name(*row) << " on " << name(family);
  // Number of pairs (operation, weight format) that gpt-oss checkpoints and options can need.
  EXPECT_EQ(ranges.size(), 19u) << name(family);
  for (const auto& [operation, of_operation] : ranges) {
    ptrdiff_t next = of_operation.begin()->first;
    for (const auto& [from, to] : of_operation) {
      EXPECT_EQ(from, next) << name(operation.first) << " on " << name(family);
      EXPECT_GE(to, from) << name(operation.first) << " on " << name(family);
      next = ptrdiff_t{to} + 1;
    }
    EXPECT_EQ(next, ptrdiff_t{kAnyRows} + 1) << name(operation.first) << " on " << name(family);
  }
}

TEST(CudaKernelTable, TakesEveryNumberOfRowsOnceOnEveryFamily) {
  for (const Family family : kFamilies) expect_every_number_of_rows_once(family, false);
  expect_every_number_of_rows_once(Family::kSm90, true);
}

// A table row for --prompt-activations covers the same numbers of rows as the table row that it replaces, on
// every family. On GPUs without block-scaled mma instructions, their software twins run.
TEST(CudaKernelTable, BlockScaledRowsAreAlternativesToOthers) {
  for (const BlockFormat format : kBlockFormats) {
    std::set<Operation> operations;
    for (const KernelRow& row : kernel_rows()) {
      if (block_format_of(row) != format) continue;
      EXPECT_TRUE(operations.insert(row.operation).second) << name(row);
      EXPECT_EQ(row.activations, format_of(format));
      EXPECT_EQ(row.weights, Format::kMxfp4) << name(row);
      const auto beside = [&](const KernelRow& other) {
        return !block_format_of(other) && other.operation == row.operation && other.weights == row.weights &&
               other.from_rows == row.from_rows && other.to_rows == row.to_rows &&
               other.pass.columns == row.pass.columns;
      };
      EXPECT_TRUE(std::any_of(kernel_rows().begin(), kernel_rows().end(), beside)) << name(row);
      for (const Family family : kFamilies) EXPECT_TRUE(row.families.include(family)) << name(row);
    }
    EXPECT_EQ(operations, (std::set{Operation::kQkv, Operation::kProject, Operation::kExpertsUp,
                                    Operation::kExpertsDown, Operation::kUnembed}));
  }
}

TEST(CudaKernelTable, RowsHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const KernelRow& row : kernel_rows()) EXPECT_TRUE(names.insert(name(row)).second) << name(row);
}

// A table row without shared_bytes relies on 48 KB, which every kernel has without opting in. Rows with wgmma
// need the largest budget.
TEST(CudaKernelTable, MatrixProductsSayHowMuchSharedMemoryTheyTakeAndFitTheSmallestBudget) {
  const Config config = *named_config("gpt-oss-120b");
  for (const KernelRow& row : kernel_rows()) {
    const auto* const routes = std::get_if<Launch<RouteArgs>>(&row.launcher);
    const bool is_in_registers = routes && *routes == &route_batch;
    if (row.pass.columns == 0 || is_in_registers) continue;
    ASSERT_NE(row.shared_bytes, nullptr) << name(row);
    EXPECT_GT(row.shared_bytes(config, row.weights), size_t{24} << 10) << name(row);
    EXPECT_LE(row.shared_bytes(config, row.weights),
              usable_bytes(row.pass.takes_image ? Budget::k227 : Budget::k99))
        << name(row);
  }
}

}  // namespace
}  // namespace nibble::cuda
