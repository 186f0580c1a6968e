// Tests which rows of the kernel table a GPU gets, by its compute capability alone. Needs no GPU.
#include "backend/cuda/kernel_table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "backend/cuda/strips.h"

namespace nibble::cuda {
namespace {

KernelFinding check_nothing(const KernelRow&) { return {}; }

KernelRow row_of(const char* kernel, Architectures architectures) {
  return {Operation::kQkv, Format::kBf16, Format::kBf16, 1, kAnyRows, architectures,
          kernel,          "a test",      &check_nothing};
}

// Every GPU that CUDA 13 knows since sm_80, and some that it does not know yet.
constexpr int kGpus[]{80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121, 130, 200};

TEST(CudaKernelTable, ARowOfOneArchitectureIsNotChosenOnALaterOne) {
  const KernelRow rows[]{row_of("everywhere", {80, Architectures::kNewest}), row_of("hopper", {90, 90}),
                         row_of("blackwell", {120, 121})};
  const auto chosen_on = [&](int compute_capability) {
    std::set<std::string> kernels;
    for (const KernelChoice& choice :
         choose_kernels(Operation::kQkv, Format::kBf16, compute_capability, rows))
      kernels.insert(choice.kernel);
    return kernels;
  };
  using Kernels = std::set<std::string>;
  EXPECT_EQ(chosen_on(75), Kernels{});
  EXPECT_EQ(chosen_on(80), Kernels{"everywhere"});
  EXPECT_EQ(chosen_on(89), Kernels{"everywhere"});
  EXPECT_EQ(chosen_on(90), (Kernels{"everywhere", "hopper"}));
  EXPECT_EQ(chosen_on(100), Kernels{"everywhere"});
  EXPECT_EQ(chosen_on(120), (Kernels{"everywhere", "blackwell"}));
  EXPECT_EQ(chosen_on(121), (Kernels{"everywhere", "blackwell"}));
  EXPECT_EQ(chosen_on(130), Kernels{"everywhere"});
}

TEST(CudaKernelTable, ChecksRowsThatTheGpuCanRunAndNoOthers) {
  const KernelRow rows[]{row_of("hopper", {90, 90}), row_of("everywhere", {80, Architectures::kNewest})};
  EXPECT_EQ(rows_valid_for(90, rows), (std::vector<const KernelRow*>{&rows[0], &rows[1]}));
  EXPECT_EQ(rows_valid_for(120, rows), std::vector<const KernelRow*>{&rows[1]});
}

TEST(CudaKernelTable, ChoosesByOperationAndFormat) {
  KernelRow other_operation = row_of("other operation", {80, Architectures::kNewest});
  other_operation.operation = Operation::kProject;
  KernelRow other_format = row_of("other format", {80, Architectures::kNewest});
  other_format.weights = Format::kMxfp4;
  const KernelRow rows[]{other_operation, other_format, row_of("this", {80, Architectures::kNewest})};
  const auto choices = choose_kernels(Operation::kQkv, Format::kBf16, 90, rows);
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].kernel, "this");
}

// From the first number of rows that an operation is launched with on, each is taken by one row.
TEST(CudaKernelTable, TakesEveryNumberOfRowsOnceOnEveryGpu) {
  for (const int gpu : kGpus) {
    std::map<std::pair<Operation, Format>, std::map<int, int>> ranges;
    for (const KernelRow* row : rows_valid_for(gpu, kernel_rows())) {
      auto& of_operation = ranges[{row->operation, row->weights}];
      EXPECT_TRUE(of_operation.emplace(row->from_rows, row->to_rows).second) << name(*row) << " on " << gpu;
    }
    EXPECT_FALSE(ranges.empty()) << gpu;
    for (const auto& [operation, of_operation] : ranges) {
      ptrdiff_t next = of_operation.begin()->first;
      for (const auto& [from, to] : of_operation) {
        EXPECT_EQ(from, next) << name(operation.first) << " on " << gpu;
        EXPECT_GE(to, from) << name(operation.first) << " on " << gpu;
        next = ptrdiff_t{to} + 1;
      }
      EXPECT_EQ(next, ptrdiff_t{kAnyRows} + 1) << name(operation.first) << " on " << gpu;
    }
  }
}

TEST(CudaKernelTable, RowsHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const KernelRow& row : kernel_rows()) EXPECT_TRUE(names.insert(name(row)).second) << name(row);
}

}  // namespace
}  // namespace nibble::cuda
