#include "cli/verify/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <system_error>

#include "cli/command.h"
#include "cli/verify/child_process.h"

namespace nibble::cli {
namespace {

using testing::HasSubstr;
using Result = Verdict::Result;

constexpr std::chrono::seconds kLong{60};

// Returns the verdict on a table row whose check runs this shell script.
Verdict verdict_of_script(const std::string& script, std::chrono::milliseconds limit = kLong) {
  return verdict_of(run_child({"/bin/sh", "-c", script}, limit));
}
std::string says(const KernelFinding& finding, int code) {
  return "echo '" + finding_json("fake/BF16", finding) + "'; exit " + std::to_string(code);
}

TEST(Verify, ACheckThatHoldsIsOk) {
  const Verdict verdict = verdict_of_script(says({0.25, "8 tokens: x[1, 2]", 1000}, kDone));
  EXPECT_EQ(verdict.result, Result::kOk);
  EXPECT_EQ(verdict.finding.worst, 0.25);
  EXPECT_EQ(verdict.finding.at, "8 tokens: x[1, 2]");
  EXPECT_EQ(verdict.finding.num_compared, 1000u);
}

TEST(Verify, AnErrorBeyondItsBoundIsWrongWithTheShape) {
  const Verdict verdict = verdict_of_script(says({7.5, "8 tokens: x[1, 2]", 1000}, kCheckFailed));
  EXPECT_EQ(verdict.result, Result::kWrong);
  EXPECT_EQ(verdict.finding.worst, 7.5);
  EXPECT_EQ(verdict.finding.at, "8 tokens: x[1, 2]");
}

TEST(Verify, AnErrorWithoutBoundArrivesAsOne) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Verdict verdict = verdict_of_script(says({infinity, "x[0, 0] is nan", 1}, kCheckFailed));
  EXPECT_EQ(verdict.result, Result::kWrong);
  EXPECT_EQ(verdict.finding.worst, infinity);
}

TEST(Verify, ACheckThatComparedNothingIsWrong) {
  EXPECT_EQ(verdict_of_script(says({}, kDone)).result, Result::kWrong);
}

TEST(Verify, ACrashIsAFinding) {
  const Verdict verdict = verdict_of_script("echo 'values of a failed check' >&2; kill -SEGV $$");
  EXPECT_EQ(verdict.result, Result::kCrashed);
  EXPECT_THAT(verdict.reason, testing::AllOf(HasSubstr("Segmentation fault"), HasSubstr("11"),
                                             HasSubstr("values of a failed check")));
}

TEST(Verify, AHangIsEndedAndIsAFinding) {
  const Verdict verdict = verdict_of_script("exec sleep 60", std::chrono::milliseconds(200));
  EXPECT_EQ(verdict.result, Result::kTimedOut);
  EXPECT_LT(verdict.seconds, 30);
}

TEST(Verify, AFaultOfTheGpuIsACrashWithItsLine) {
  const Verdict verdict = verdict_of_script(
      "echo more >&2; echo 'nibble: the GPU failed while checking qkv: an illegal access' >&2; exit 2");
  EXPECT_EQ(verdict.result, Result::kCrashed);
  EXPECT_EQ(verdict.reason, "exit code 2: the GPU failed while checking qkv: an illegal access");
}

TEST(Verify, AChildThatSaysNothingOrNonsenseIsNotOk) {
  EXPECT_EQ(verdict_of_script("exit 0").result, Result::kCrashed);
  EXPECT_EQ(verdict_of_script("echo nonsense").result, Result::kCrashed);
  EXPECT_EQ(verdict_of_script("echo '{\"worst\": 0}'").result, Result::kCrashed);
}

TEST(Child, BothOutputsArriveWholeWhateverTheirLength) {
  const ChildResult child =
      run_child({"/bin/sh", "-c", "head -c 300000 /dev/zero >&2; head -c 200000 /dev/zero; exit 7"}, kLong);
  EXPECT_EQ(child.end, ChildResult::End::kExited);
  EXPECT_EQ(child.code, 7);
  EXPECT_EQ(child.out.size(), 200000u);
  EXPECT_EQ(child.err.size(), 300000u);
}

TEST(Child, AProgramThatIsNotThereIsAnError) {
  EXPECT_THROW(run_child({"/no/such/program"}, kLong), std::system_error);
}

}  // namespace
}  // namespace nibble::cli
