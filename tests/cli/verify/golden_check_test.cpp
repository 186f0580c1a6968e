// Tests the verdict of `nibble verify --model` on golden data. Shell scripts replace the child process.
#include "cli/verify/golden_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/command.h"
#include "tests/folders.h"

namespace nibble::cli {
namespace {

using testing::HasSubstr;
using Result = Verdict::Result;

Verdict golden_verdict_of_script(const std::string& script) {
  return golden_verdict_of(run_child({"/bin/sh", "-c", script}, std::chrono::seconds(60)));
}

// Returns a script that prints the result of `eval --golden --json` for two prompts. The logits of the second
// prompt are at `distance` from golden ones.
std::string eval_says(double distance, bool is_within) {
  return fmt::format(
      R"(echo '{{"tolerance": {{"relative_l2": 0.02, "near_tie_relative_l2": 0.4}}, "prompts": [)"
      R"({{"name": "a", "relative_l2": 0.005, "near_tie_relative_l2": 0, "is_within": true}},)"
      R"({{"name": "b", "relative_l2": {}, "near_tie_relative_l2": 0.3, "num_top_wrong": 9,)"
      R"( "num_top_compared": 70, "greedy_differs_at": null, "is_within": {}}}]}}'; exit {})",
      distance, is_within, is_within ? kDone : kCheckFailed);
}

TEST(VerifyGolden, PromptsWithinTheToleranceAreOk) {
  const Verdict verdict = golden_verdict_of_script(eval_says(0.01, true));
  EXPECT_EQ(verdict.result, Result::kOk);
  EXPECT_DOUBLE_EQ(verdict.finding.worst, 0.75);  // prompt b at near ties: 0.3 of the allowed 0.4
  EXPECT_EQ(verdict.finding.num_compared, 2u);
}

TEST(VerifyGolden, APromptOutsideIsWrongAndNamed) {
  const Verdict verdict = golden_verdict_of_script(eval_says(0.04, false));
  EXPECT_EQ(verdict.result, Result::kWrong);
  EXPECT_EQ(verdict.finding.worst, 2);
  EXPECT_EQ(verdict.finding.at, "prompt b: logits");
}

TEST(VerifyGolden, APromptWithOtherTokensIsWrongThoughItsLogitsAreWithinTheTolerance) {
  const Verdict verdict = golden_verdict_of_script(eval_says(0.01, false));
  EXPECT_EQ(verdict.result, Result::kWrong);
  EXPECT_THAT(verdict.finding.at, HasSubstr("9 of 70 entries of the top 5 differ"));
}

TEST(VerifyGolden, NoPromptsAreWrong) {
  EXPECT_EQ(golden_verdict_of_script(R"(echo '{"tolerance": {"relative_l2": 1}, "prompts": []}')").result,
            Result::kWrong);
}

TEST(VerifyGolden, ACrashAndARefusalAreFindings) {
  const Verdict crash = golden_verdict_of_script("kill -SEGV $$"),
                refusal = golden_verdict_of_script("echo 'nibble: x.json is for another model' >&2; exit 2");
  EXPECT_EQ(crash.result, Result::kCrashed);
  EXPECT_EQ(refusal.result, Result::kCrashed);
  EXPECT_THAT(refusal.reason, HasSubstr("x.json is for another model"));
}

TEST(VerifyGolden, DataAreFoundInTheModelsFolder) {
  EXPECT_EQ(golden_of(test::source_path("tests/golden")), test::source_path("tests/golden") + "/golden.json");
  EXPECT_TRUE(golden_of(test::source_path("models")).empty());
  EXPECT_TRUE(golden_of({}).empty());
}

}  // namespace
}  // namespace nibble::cli
