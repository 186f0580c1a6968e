// Tests shared-memory budgets, and the launch target if options pretend a smaller GPU. Needs no GPU.
#include "backend/cuda/chip/target.h"
#include "backend/cuda/chip/caps.h"
#include "backend/cuda/cuda_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace nibble::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(CudaBudget, IsTheLargestThatFits) {
  EXPECT_EQ(largest_budget((size_t{99} << 10) - 1), std::nullopt);
  EXPECT_EQ(largest_budget(size_t{99} << 10), Budget::k99);
  EXPECT_EQ(largest_budget((size_t{163} << 10) - 1), Budget::k99);
  EXPECT_EQ(largest_budget(size_t{163} << 10), Budget::k163);
  EXPECT_EQ(largest_budget(size_t{227} << 10), Budget::k227);
  EXPECT_EQ(largest_budget(size_t{400} << 10), Budget::k227);
}

TEST(CudaBudget, LeavesRoomForStaticArrays) {
  EXPECT_EQ(usable_bytes(Budget::k99), 100'352u);
  EXPECT_EQ(usable_bytes(Budget::k163), 165'888u);
  EXPECT_EQ(usable_bytes(Budget::k227), 231'424u);
}

TEST(CudaTarget, IsTheChipWhereNothingIsPretended) {
  const Target h200 = target_of(known_gpu("h200"), {});
  EXPECT_EQ(h200.budget, Budget::k227);
  EXPECT_EQ(h200.num_multiprocessors, 132);
  EXPECT_TRUE(h200.has_dependent_launch);
  const Target a100 = target_of(known_gpu("a100"), {});
  EXPECT_EQ(a100.budget, Budget::k163);
  EXPECT_FALSE(a100.has_dependent_launch);
  const Target gb10 = target_of(known_gpu("gb10"), {});
  EXPECT_EQ(gb10.budget, Budget::k99);
  EXPECT_TRUE(gb10.has_block_products);
  EXPECT_FALSE(h200.has_block_products);
}

TEST(CudaTarget, MayBeASmallerChipThanTheOneThatIsThere) {
  const Target target = target_of(known_gpu("h200"), {.shared_budget = 99, .num_multiprocessors = 48});
  EXPECT_EQ(target.budget, Budget::k99);
  EXPECT_EQ(target.num_multiprocessors, 48);
  EXPECT_EQ(target.family, Family::kSm80);  // every chip can run the kernels of sm_80
  EXPECT_TRUE(target.has_dependent_launch && target.has_clusters);
}

TEST(CudaTarget, KeepsItsFamilyInItsOwnBudget) {
  EXPECT_EQ(target_of(known_gpu("h200"), {.shared_budget = 227, .num_multiprocessors = 48}).family,
            Family::kSm90);
  EXPECT_EQ(target_of(known_gpu("gb10"), {.shared_budget = 99}).family, Family::kSm121);
}

TEST(CudaTarget, IsNeverMoreThanTheChipHas) {
  const auto refusal = [](const char* gpu, const CudaOptions& options) {
    return error_of([&] { target_of(known_gpu(gpu), options); });
  };
  EXPECT_THAT(refusal("gb10", {.shared_budget = 163}),
              AllOf(HasSubstr("--shared-budget 163"), HasSubstr("GB10"), HasSubstr("at most 99")));
  EXPECT_THAT(refusal("h200", {.shared_budget = 100}), HasSubstr("99, 163 or 227"));
  EXPECT_THAT(refusal("gb10", {.num_multiprocessors = 49}),
              AllOf(HasSubstr("--multiprocessors 49"), HasSubstr("48")));
  EXPECT_THAT(refusal("gb10", {.num_multiprocessors = 0}), HasSubstr("--multiprocessors 0"));
}

TEST(CudaTarget, NeedsTheSmallestBudgetAtLeast) {
  const DeviceCaps small = caps_of({"a small GPU", 80, 10, size_t{64} << 10, size_t{8} << 30, false});
  EXPECT_THAT(error_of([&] { target_of(small, {}); }), AllOf(HasSubstr("64 KB"), HasSubstr("99")));
}

}  // namespace
}  // namespace nibble::cuda
