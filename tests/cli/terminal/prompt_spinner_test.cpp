#include "cli/terminal/prompt_spinner.h"

#include <gtest/gtest.h>

#include "cli/terminal/prompt.h"
#include "model/batch.h"

namespace nibble::cli {
namespace {

TEST(PromptProgress, TheTokensOfTheStepUnderWayAreNotDone) {
  PromptProgress progress(1000);
  EXPECT_EQ(progress.done(0), 0);
  EXPECT_EQ(progress.done(512 / kPageTokens), 0);
  EXPECT_EQ(progress.done(512 / kPageTokens), 0);
  EXPECT_EQ(progress.done(1024 / kPageTokens), 512);
  EXPECT_EQ(progress.done(1024 / kPageTokens), 512);
}

TEST(PromptProgress, ItNeverExceedsThePromptOrGoesBack) {
  PromptProgress progress(40);
  EXPECT_EQ(progress.done(1), 0);
  EXPECT_EQ(progress.done(100), 32);
  EXPECT_EQ(progress.done(0), 32);
  EXPECT_EQ(progress.done(100), 32);
}

TEST(PromptSpinner, ItsLineSaysHowFarItIs) {
  EXPECT_EQ(spinner_line(1, 512, 3000, 4.4), "/ reading the prompt: 512 of 3000 tokens, 4 s");
  EXPECT_EQ(spinner_line(4, 0, 3000, 0.3).front(), '|');
}

TEST(Prompt, PartsAreSeparatedByABlankLineAndEmptyOnesLeftOut) {
  EXPECT_EQ(join_parts({"Summarise:", "", "one", "two"}), "Summarise:\n\none\n\ntwo");
  EXPECT_EQ(join_parts({"", ""}), "");
}

}  // namespace
}  // namespace nibble::cli
