// Tests which kernels `nibble tune` tries on a GPU, and how it uses their times. Needs no GPU.
#include "backend/cuda/tune/step_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cuda/limits.h"
#include "backend/cuda/recipe.h"
#include "tests/error_of.h"

namespace nibble::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using enum Operation;

BackendOptions trial_options() {
  BackendOptions options;
  options.max_batch_tokens = 2048;
  return options;
}
Target trial_target(const char* gpu) { return target_of(known_gpu(gpu), {}); }
std::vector<StepKernels> kernels_on(const Target& target) {
  return step_kernels(*named_config("gpt-oss-120b"), trial_options(), target);
}
Plan table_plan(const Target& target) {
  return {*named_config("gpt-oss-120b"), trial_options(), target, "a test"};
}

std::vector<int> rows_of(const std::vector<StepKernels>& candidates, bool may_be_chosen) {
  std::vector<int> rows;
  for (const StepKernels& kernels : candidates)
    if (kernels.may_be_chosen == may_be_chosen) rows.push_back(kernels.of_rows);
  return rows;
}

// The candidates are one set of kernels for each number of rows at which the table changes and, on Hopper,
// sets of mma.sync kernels.
TEST(CudaTune, TriesWhatTheTableRunsOfAnyNumberOfRows) {
  const auto hopper = kernels_on(trial_target("h100"));
  EXPECT_THAT(rows_of(hopper, true),
              ElementsAre(2, kOwnNorms + 1, kMaxColumns + 1, kSplitTokens + 1, kManyTokens, kNarrowTokens + 1,
                          kNarrowProject + 1, kRouterTokens + 1, kWideTokens));
  // Without wgmma, lm_head's strips are scheduled dynamically up to kMaxColumns rows.
  EXPECT_THAT(rows_of(hopper, false), ElementsAre(kOwnNorms + 1, kMaxColumns + 1, kFewTokens + 1));
  const auto blackwell = kernels_on(trial_target("gb10"));
  EXPECT_THAT(rows_of(blackwell, true), ElementsAre(2, kOwnNorms + 1, kMaxColumns + 1, kFewTokens + 1));
  EXPECT_THAT(rows_of(blackwell, false), ElementsAre());
}

// The kernels of each candidate make a valid plan: they cover all numbers of rows and fit together.
TEST(CudaTune, ACandidateMakesAStepOfAnyNumberOfRowsThatItCanTake) {
  for (const char* gpu : {"h100", "gb10"}) {
    const Target target = trial_target(gpu);
    for (const StepKernels& kernels : kernels_on(target)) {
      const Plan plan(*named_config("gpt-oss-120b"), trial_options(), target_of(kernels, target), "a test",
                      {.rows = kernels.rows});
      for (const int rows : {2, 3, 12, 64, 200, 2048}) {
        for (const Operation operation : kTriedOperations) {
          const KernelRow *tried = plan.find(operation, rows), *expected = kernels.find(operation);
          ASSERT_EQ(tried == nullptr, expected == nullptr) << name(operation);
          if (tried) {
            EXPECT_STREQ(tried->kernel, expected->kernel);
          }
        }
        const StepRecipe step = recipe(plan, *named_config("gpt-oss-120b"), {}, {rows, rows});
        EXPECT_EQ(plan.find(kRmsNorm, rows) != nullptr, step.attention_norm != NormIn::kReader);
        EXPECT_EQ(plan.find(kRmsNorm, rows) != nullptr, step.experts_norm != NormIn::kReader);
        EXPECT_EQ(plan.find(kExpertsUp, rows)->pass.columns, step.group_size);
        EXPECT_EQ(plan.find(kExpertsDown, rows)->pass.takes_image,
                  step.qkv_activations == ActivationLayout::kImage);
        EXPECT_EQ(step.routing == RoutingBy::kSameLaunch, kernels.of_rows == kOwnNorms);
      }
      const std::string_view router = kernels.find(kRoute)->kernel, qkv = kernels.find(kQkv)->kernel;
      EXPECT_EQ(kernels.most_rows() < kAnyRows,
                router.starts_with("route_and_experts_up") || qkv.starts_with("qkv_split"));
    }
  }
}

TEST(CudaTune, TheTableGivesNoKernelMoreRowsThanItCanTake) {
  for (const std::string& gpu : known_gpu_names()) {
    const Plan plan = table_plan(trial_target(gpu.c_str()));
    for (const KernelRow* row : plan.chosen())
      EXPECT_TRUE(row->to_rows == kAnyRows || row->to_rows <= row->max_rows) << name(*row);
  }
}

// Returns times of all operations except norms. Candidate `best_experts` is `ratio` times as fast as the
// others in the operations of the experts (routing included), candidate `best` in all other operations.
std::vector<StepTrial> trials_where(const std::vector<StepKernels>& candidates, int rows, size_t best,
                                    size_t best_experts, double ratio) {
  std::vector<StepTrial> trials;
  for (size_t c = 0; c < candidates.size(); ++c) {
    if (rows > candidates[c].most_rows()) continue;
    StepTrial& trial = trials.emplace_back(StepTrial{c, rows, {}});
    for (const Operation operation : kTriedOperations) {
      if (operation == kRmsNorm || !candidates[c].find(operation)) continue;
      const bool is_of_experts = operation == kRoute || operation == kExpertsUp || operation == kExpertsDown;
      trial.microseconds[operation] = c == (is_of_experts ? best_experts : best) ? 10 / ratio : 10;
    }
  }
  return trials;
}

const KernelChoice* choice_of(const std::vector<KernelChoice>& ranges, Operation operation, int rows) {
  const auto found = std::find_if(ranges.begin(), ranges.end(), [&](const KernelChoice& range) {
    return range.operation == operation && range.from_rows <= rows && rows <= range.to_rows;
  });
  return found == ranges.end() ? nullptr : &*found;
}

// The table stays unchanged if all kernels take equally long, or if another kernel is faster only by noise.
TEST(CudaTune, TheTableStaysWhereNothingIsFasterBeyondNoise) {
  for (const char* gpu : {"h100", "gb10"}) {
    const Target target = trial_target(gpu);
    const auto candidates = kernels_on(target);
    const Plan plan = table_plan(target);
    std::vector<StepTrial> trials;
    for (const int rows : {2, 4, 8, 12, 16, 24, 128, 129, 255, 256, 1023, 1024, 2048}) {
      const auto more = trials_where(candidates, rows, 1, 1, 1.01);
      trials.insert(trials.end(), more.begin(), more.end());
    }
    const auto ranges = ranges_of(candidates, chosen_now(candidates, trials), plan);
    EXPECT_TRUE(ranges_of(candidates, fastest(candidates, trials, 36), plan) == ranges) << gpu;
    for (const KernelRow* row : plan.chosen())
      if (std::find(std::begin(kTriedOperations), std::end(kTriedOperations), row->operation) !=
          std::end(kTriedOperations))
        for (const int rows : {row->from_rows, std::min(row->to_rows, 2048)}) {
          const KernelChoice* choice = choice_of(ranges, row->operation, rows);
          ASSERT_TRUE(choice) << name(*row) << " on " << gpu;
          EXPECT_EQ(choice->kernel, row->kernel) << rows << " rows on " << gpu;
        }
  }
}

// From 64 rows on, experts in groups of 64 pairs are faster, so the experts' threshold moves. The kernels of
// qkv and project stay unchanged: split-K kernels run up to their largest number of rows.
TEST(CudaTune, AFasterKernelTakesOverAtTheRowsThatWereTried) {
  const Target target = trial_target("h100");
  const auto candidates = kernels_on(target);
  ASSERT_EQ(candidates[3].of_rows, kSplitTokens + 1);
  ASSERT_EQ(candidates[4].of_rows, kManyTokens);
  std::vector<StepTrial> trials = trials_where(candidates, 48, 2, 2, 1);
  for (const int rows : {64, 128, 129}) {
    const auto more = trials_where(candidates, rows, rows == 64 ? 2 : 3, 4, 1.5);
    trials.insert(trials.end(), more.begin(), more.end());
  }
  const auto choices = fastest(candidates, trials, 36);
  const auto ranges = ranges_of(candidates, choices, table_plan(target));
  EXPECT_THAT(choice_of(ranges, kExpertsUp, 63)->kernel, testing::HasSubstr("8 pairs"));
  EXPECT_EQ(choice_of(ranges, kExpertsUp, 63)->to_rows, 63);
  EXPECT_THAT(choice_of(ranges, kExpertsUp, 64)->kernel, testing::HasSubstr("64 pairs"));
  EXPECT_THAT(choice_of(ranges, kQkv, 64)->kernel, testing::HasSubstr("qkv_split"));
  EXPECT_THAT(choice_of(ranges, kQkv, 65)->kernel, testing::HasSubstr("qkv_narrow"));
}

// In the plan of the next start, steps that were tried run the faster kernels, and all other steps run the
// kernels of the table.
TEST(CudaTune, APlanRunsTheTunedStepsAndTheTableElsewhere) {
  const Target target = trial_target("h100");
  const auto candidates = kernels_on(target);
  std::vector<StepTrial> trials = trials_where(candidates, 48, 2, 2, 1);
  for (const int rows : {64, 128, 129}) {
    const auto more = trials_where(candidates, rows, rows == 64 ? 2 : 3, rows == 64 ? 4 : 3, 1.5);
    trials.insert(trials.end(), more.begin(), more.end());
  }
  const auto steps = tuned_steps(candidates, fastest(candidates, trials, 36), chosen_now(candidates, trials));
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps[0].from_rows, 64);
  EXPECT_LT(steps[0].to_rows, 128);
  const Plan table = table_plan(target);
  const Plan tuned(*named_config("gpt-oss-120b"), trial_options(), target, "a test", {.tuned_steps = steps});
  for (int rows = 1; rows <= 200; ++rows)
    for (const Operation operation : kOperations) {
      const auto of = std::find_if(steps.begin(), steps.end(), [&](const TunedSteps& range) {
        return range.from_rows <= rows && rows <= range.to_rows;
      });
      const int table_rows = of == steps.end() || !is_tried(operation) ? rows
                             : is_of_experts(operation)                ? of->experts
                                                                       : of->attention;
      EXPECT_EQ(tuned.find(operation, rows), table.find(operation, table_rows)) << rows << name(operation);
    }
  for (const int rows : {63, 64, 100, 128}) {
    const StepRecipe step = recipe(tuned, *named_config("gpt-oss-120b"), {}, {rows, rows});
    EXPECT_EQ(step.group_size, tuned.find(kExpertsUp, rows)->pass.columns);
  }
}

// choices(), which is printed and logged, covers all numbers of rows without gaps, and marks tuned kernels.
TEST(CudaTune, ChoicesOfATunedPlanAreTheKernelsThatRun) {
  const Target target = trial_target("h100");
  const int split = kSplitTokens + 1;
  const Plan plan(*named_config("gpt-oss-120b"), trial_options(), target, "a test",
                  {.tuned_steps = {{kMaxColumns + 1, kMaxColumns + 4, split, split}}});
  const std::vector<KernelChoice> all = choices(plan);
  for (const Operation operation : {kQkv, kProject, kRoute, kExpertsUp, kExpertsDown, kUnembed}) {
    int64_t next = 1;
    for (const KernelChoice& choice : all) {
      if (choice.operation != operation) continue;
      EXPECT_EQ(choice.from_rows, next);
      EXPECT_EQ(choice.kernel, plan.find(operation, choice.from_rows)->kernel);
      EXPECT_EQ(choice.reason == "found by nibble tune on this GPU",
                !plan.find(operation, choice.from_rows)->takes(choice.from_rows));
      next = int64_t{choice.to_rows} + 1;
    }
    EXPECT_GT(next, 2048);
  }
}

TEST(CudaTune, APlanRefusesStepsThatDoNotFitItsTable) {
  const auto refusal = [](const TunedSteps& steps) {
    return error_of([&] {
      Plan(*named_config("gpt-oss-120b"), trial_options(), trial_target("h100"), "a test",
           {.tuned_steps = {steps}});
    });
  };
  EXPECT_EQ(refusal({kMaxColumns + 1, kMaxColumns + 4, kSplitTokens + 1, kSplitTokens + 1}), "accepted");
  constexpr const char* kWhat{"nibble tune chose kernels that do not fit: run it again, or use --tuning off"};
  // The kernels for 2 rows cannot take 100 rows.
  EXPECT_THAT(refusal({kMaxColumns + 1, 100, 2, 2}), HasSubstr(kWhat));
  // The attention kernels for 2 rows do not use the layout that the experts' kernels for many tokens read.
  EXPECT_THAT(refusal({16, 24, 2, kManyTokens}), HasSubstr(kWhat));
  // The first number of rows is larger than the last.
  EXPECT_THAT(refusal({24, 16, kManyTokens, kManyTokens}), HasSubstr(kWhat));
  // Steps of one row are never tuned.
  EXPECT_THAT(refusal({1, 4, 4, 4}), HasSubstr(kWhat));
}

// The decode kernels of the experts take activations row by row, but the wgmma kernels of qkv and project use
// swizzled tiles (images). No step can combine them, however fast they are.
TEST(CudaTune, KernelsThatDoNotFitTogetherAreNotChosen) {
  const auto candidates = kernels_on(trial_target("h100"));
  const auto trials = trials_where(candidates, 16, 2, 1, 100);
  const auto choices = fastest(candidates, trials, 36);
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(candidates[choices[0].attention].find(kQkv)->pass.takes_image,
            candidates[choices[0].experts].find(kExpertsUp)->pass.takes_image);
}

// mma.sync kernels are timed on Hopper, but never chosen there.
TEST(CudaTune, WhatMayNotBeChosenIsNot) {
  const auto candidates = kernels_on(trial_target("h100"));
  const size_t by_mma = candidates.size() - 1;
  ASSERT_FALSE(candidates[by_mma].may_be_chosen);
  for (const StepChoice& choice : fastest(candidates, trials_where(candidates, 64, by_mma, by_mma, 10), 36)) {
    EXPECT_NE(choice.attention, by_mma);
    EXPECT_NE(choice.experts, by_mma);
  }
}

// A kernel that fails its check is not timed. If the table chooses that kernel, the fastest timed kernel
// replaces it.
TEST(CudaTune, WhereTheTablesKernelsWereRefusedTheFastestOfTheOthersIsChosen) {
  const auto candidates = kernels_on(trial_target("gb10"));
  std::vector<StepTrial> trials = trials_where(candidates, 12, 3, 3, 1.5);
  std::erase_if(trials, [](const StepTrial& trial) { return trial.candidate == 2; });
  EXPECT_TRUE(chosen_now(candidates, trials).empty());
  const auto choices = fastest(candidates, trials, 24);
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].attention, 3u);
}

}  // namespace
}  // namespace nibble::cuda
