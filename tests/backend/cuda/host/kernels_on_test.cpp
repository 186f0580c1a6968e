// Tests the output of `inspect --kernels --gpu` for a GPU that this machine does not have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cuda/chip/caps.h"
#include "backend/cuda/cuda_backend.h"
#include "tests/error_of.h"

namespace nibble::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

RemoteKernels ask(std::string_view gpu, const CudaOptions& own = {}, const char* model = "gpt-oss-120b") {
  return kernels_on(gpu, *named_config(model), {}, own, model);
}

TEST(CudaKernelsOn, EveryKnownGpuHasAKernelForEachOperation) {
  for (const std::string& gpu : known_gpu_names()) {
    const RemoteKernels found = ask(gpu);
    EXPECT_THAT(found.device, HasSubstr(known_gpu(gpu).name));
    for (const Operation operation : kOperations)
      EXPECT_TRUE(std::any_of(found.kernels.begin(), found.kernels.end(),
                              [&](const KernelChoice& row) { return row.operation == operation; }))
          << nibble::name(operation) << " on " << gpu;
  }
}

TEST(CudaKernelsOn, SaysWhereTheModelDoesNotFit) {
  EXPECT_THAT(ask("h200").refusal, IsEmpty());
  EXPECT_THAT(ask("gb10").refusal, IsEmpty());
  EXPECT_THAT(ask("rtx4090").refusal, AllOf(HasSubstr("gpt-oss-120b needs"), HasSubstr("24.0 are free")));
  EXPECT_THAT(ask("rtx4090", {}, "gpt-oss-20b").refusal, IsEmpty());
  EXPECT_THAT(ask("h200", {.shared_budget = 163}).refusal, IsEmpty());
}

TEST(CudaKernelsOn, ListsTheActivationsOfPrompts) {
  const RemoteKernels found = ask("sm_121", {.prompt_activations = BlockFormat::kMxfp8x2});
  EXPECT_THAT(found.device, HasSubstr("block-scaled products"));
  EXPECT_EQ(std::count_if(found.kernels.begin(), found.kernels.end(),
                          [](const KernelChoice& row) {
                            return row.weights == "MXFP4" && row.activations == "MXFP8x2" &&
                                   row.from_rows == 17 && row.to_rows == kAnyRows;
                          }),
            2);
}

// Tests which all-reduce follows each half of a layer, for every number of rows.
TEST(CudaKernelsOn, SaysHowSeveralGpusAddUpWhatTheyHave) {
  const auto sums_of = [](std::vector<int> parts, bool have_own_sequences = false) {
    CudaOptions own;
    own.parts = std::move(parts);
    own.have_own_sequences = have_own_sequences;
    std::vector<KernelChoice> sums = ask("h200", own).kernels;
    std::erase_if(sums,
                  [](const KernelChoice& row) { return row.kernel.find("sum over") == row.kernel.npos; });
    return sums;
  };
  EXPECT_THAT(sums_of({1}), IsEmpty());
  const std::vector<KernelChoice> sums = sums_of({1, 1, 1, 1});
  ASSERT_EQ(sums.size(), 6u);
  for (size_t i = 0; i < sums.size(); ++i) {
    EXPECT_THAT(sums[i].kernel, HasSubstr("4 ranks"));
    EXPECT_EQ(sums[i].from_rows, i % 3 == 0 ? 1 : sums[i - 1].to_rows + 1);
  }
  EXPECT_EQ(sums[2].to_rows, kAnyRows);
  const std::vector<KernelChoice> of_sequences = sums_of({1, 1, 1, 1}, true);
  ASSERT_EQ(of_sequences.size(), 5u);
  for (const KernelChoice& row : of_sequences)
    if (row.operation == Operation::kExpertsDown) {
      EXPECT_THAT(row.kernel, testing::Not(HasSubstr("norm")));
    }
  EXPECT_EQ(of_sequences[4].from_rows, of_sequences[3].to_rows + 1);
}

TEST(CudaKernelsOn, AnUnknownGpuIsAnsweredWithTheKnownOnes) {
  EXPECT_THAT(error_of([] { ask("sm_42"); }), HasSubstr("the known GPUs are gb10"));
}

// Tests the output of `inspect --rows`.
TEST(CudaKernelsOn, SaysWhatDecidesHowAStepRuns) {
  const auto value_of = [](const RemoteKernels& on, int num_rows, std::string_view name) {
    for (const StepFact& fact : on.step(num_rows))
      if (fact.name == name) return fact.value;
    return std::string("absent");
  };
  const RemoteKernels alone = ask("h200");
  EXPECT_EQ(value_of(alone, 1, "norm before attention"), "computed by qkv");
  EXPECT_EQ(value_of(alone, 1, "routing"), "in one launch with experts-up; mailbox to experts-down");
  EXPECT_THAT(value_of(alone, 1, "launch of experts-down"), HasSubstr("a slot for each expert"));
  EXPECT_EQ(value_of(alone, 16, "norm before experts"), "computed by the router's launch");
  EXPECT_EQ(value_of(alone, 16, "activations of experts"), "swizzled image of BF16");
  EXPECT_EQ(value_of(alone, 16, "launch of experts-down"), "absent");
  EXPECT_EQ(value_of(ask("gb10", {.prompt_activations = BlockFormat::kMxfp8}), 64, "activations of experts"),
            "rows of blocks with scales");
  CudaOptions two;
  two.parts = {1, 1};
  EXPECT_EQ(value_of(ask("h200", two), 16, "norm before attention"),
            "left by the sum over ranks; in the first layer a launch of its own, rms_norm");
  two.have_own_sequences = true;
  EXPECT_EQ(value_of(ask("h200", two), 16, "rows of attention"), "8");
}

}  // namespace
}  // namespace nibble::cuda
