#include "cli/tune/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nibble::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

KernelTrials two_kernels() {
  constexpr auto kUp = Operation::kExpertsUp;
  return {.trials = {{kUp, "few: by 8", 8, 10.25},
                     {kUp, "few: by 8", 12, 20.5},
                     {kUp, "many: by 64", 12, 15.0},
                     {kUp, "many: by 64", 8, 0, "3 times the bound at gated[1, 2]"}},
          .chosen = {{kUp, "MXFP4", "BF16", "few: by 8", "a record", 2, 16},
                     {kUp, "MXFP4", "BF16", "many: by 64", "another", 17, kAnyRows}},
          .fastest = {{kUp, "MXFP4", "BF16", "few: by 8", "a record", 2, 11},
                      {kUp, "MXFP4", "BF16", "many: by 64", "another", 12, kAnyRows}}};
}

TEST(TuneKernels, ATableHasAColumnForEachKernelAndMarksTheFastest) {
  const std::string text = trials_text(two_kernels());
  EXPECT_THAT(text, HasSubstr("experts up\n  a  few: by 8\n  b  many: by 64\n"));
  EXPECT_THAT(text, HasSubstr("|    8 |     10.2* |     wrong |\n|   12 |     20.5  |     15.0* |\n"));
}

TEST(TuneKernels, AKernelThatIsWrongIsRefusedWithThePlace) {
  EXPECT_THAT(trials_text(two_kernels()),
              HasSubstr("not usable with 8 rows: many: by 64: 3 times the bound at gated[1, 2]"));
}

TEST(TuneKernels, RowsReadAsTheTableHasThemAndChangesAreMarked) {
  KernelTrials trials = two_kernels();
  const std::string text = table_rows_text(trials, "cuda-tune.jsonl");
  EXPECT_THAT(
      text,
      HasSubstr("{kExpertsUp, kMxfp4, kBf16, 2, 11, \"few: by 8\", \"cuda-tune.jsonl\"},  // now: 2, 16"));
  EXPECT_THAT(text, HasSubstr("12, kAnyRows, \"many: by 64\", \"cuda-tune.jsonl\"},  // now: 17, kAnyRows"));
  trials.fastest = trials.chosen;
  EXPECT_THAT(table_rows_text(trials, "cuda-tune.jsonl"), Not(HasSubstr("// now")));
  EXPECT_THAT(table_rows_text(trials, "cuda-tune.jsonl"), HasSubstr("\"few: by 8\", \"a record\"},\n"));
}

TEST(TuneKernels, StepsThatRunOtherKernelsAreListed) {
  EXPECT_EQ(tuned_steps_text({}), "The table's kernels are the fastest for each number of rows.\n");
  const TunedSteps steps[]{{64, 127, 33, 128}};
  EXPECT_THAT(
      tuned_steps_text(steps),
      testing::HasSubstr("- steps of 64 to 127 rows: attention and lm_head as with 33 rows, experts as with "
                         "128 rows\n"));
}

}  // namespace
}  // namespace nibble::cli
