#include "cli/verify/probe_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "cli/command.h"
#include "cli/verify/report.h"
#include "setup/machine/verified.h"

namespace nibble::cli {
namespace {

using testing::HasSubstr;

constexpr std::chrono::seconds kProbeTestLimit{60};

ProbeVerdict verdict_of_probe(const std::string& script, std::chrono::milliseconds limit = kProbeTestLimit) {
  return probe_verdict_of(run_child({"/bin/sh", "-c", script}, limit));
}
std::string answers(const ProbeFinding& finding, int code) {
  return "echo '" + probe_json("fake", finding).dump() + "'; exit " + std::to_string(code);
}

TEST(ProbeVerdict, AnAnswerArrivesAsItWasGiven) {
  const ProbeFinding finding{ProbeFinding::Result::kTwin, "24 bits, rounded", {{"bits", 24}, {"share", 0.5}}};
  const ProbeVerdict verdict = verdict_of_probe(answers(finding, kDone));
  EXPECT_EQ(verdict.result, "twin");
  EXPECT_TRUE(verdict.is_fine());
  EXPECT_EQ(verdict.finding.found, "24 bits, rounded");
  ASSERT_EQ(verdict.finding.figures.size(), 2u);
  EXPECT_EQ(verdict.finding.figures[1].name, "share");
  EXPECT_EQ(verdict.finding.figures[1].value, 0.5);
}

TEST(ProbeVerdict, OnlyAnAnswerThatKernelsDoNotExpectIsNotFine) {
  using enum ProbeFinding::Result;
  for (const ProbeFinding::Result result : {kOk, kTwin, kMissing, kOther}) {
    const ProbeVerdict verdict =
        verdict_of_probe(answers({result, "x"}, result == kOther ? kCheckFailed : kDone));
    EXPECT_EQ(verdict.result, name(result));
    EXPECT_EQ(verdict.is_fine(), result != kOther);
  }
}

TEST(ProbeVerdict, AFigureThatIsNoNumberIsLeftOut) {
  const double infinity = std::numeric_limits<double>::infinity();
  const ProbeVerdict verdict = verdict_of_probe(
      answers({ProbeFinding::Result::kOther, "x", {{"worst", infinity}, {"bound", 1}}}, kCheckFailed));
  ASSERT_EQ(verdict.finding.figures.size(), 1u);
  EXPECT_EQ(verdict.finding.figures[0].name, "bound");
}

TEST(ProbeVerdict, ACrashAHangAndNonsenseAreResults) {
  const ProbeVerdict crash = verdict_of_probe("kill -ILL $$");
  EXPECT_EQ(crash.result, "crashed");
  EXPECT_FALSE(crash.is_fine());
  EXPECT_THAT(crash.finding.found, HasSubstr("Illegal instruction"));
  EXPECT_EQ(verdict_of_probe("exec sleep 60", std::chrono::milliseconds(200)).result, "timed out");
  EXPECT_EQ(verdict_of_probe("echo nonsense").result, "crashed");
  EXPECT_EQ(verdict_of_probe(R"(echo '{"result": "fine", "found": "x", "figures": {}}')").result, "crashed");
  EXPECT_EQ(verdict_of_probe(R"(echo '{"result": "ok", "found": "x"}')").result, "crashed");
}

// setup/machine/verified.h must be able to read the report of `nibble verify`.
TEST(VerifyReport, IsReadAsItWasKept) {
  const std::string folder = testing::TempDir() + "nibble_report_test";
  std::filesystem::remove_all(folder);
  const char* const before = std::getenv("XDG_STATE_HOME");
  const std::optional<std::string> state = before ? std::optional<std::string>(before) : std::nullopt;
  setenv("XDG_STATE_HOME", folder.c_str(), 1);
  const DeviceFacts gpu{.name = "a GPU"};
  Machine machine;
  machine.device = gpu;
  auto probes = nlohmann::ordered_json::array({probe_json("fake", {ProbeFinding::Result::kOk, "x"})});
  auto kernels = nlohmann::ordered_json::array({{{"kernel", "qkv/BF16"}, {"result", "ok"}}});
  EXPECT_EQ(keep_report(gpu, report_json(machine, std::move(probes), std::move(kernels))), "");
  const std::optional<Verified> verified = read_verified(verified_path(gpu));
  state ? setenv("XDG_STATE_HOME", state->c_str(), 1) : unsetenv("XDG_STATE_HOME");
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(verified);
  EXPECT_THAT(verified->kernels, testing::ElementsAre(testing::Pair("qkv/BF16", "ok")));
  EXPECT_THAT(verified->probes, testing::ElementsAre(testing::Pair("fake", "ok")));
  EXPECT_FALSE(verified->date.empty());
  EXPECT_FALSE(verified->commit.empty());
}

TEST(VerifyReport, SaysWhyItWasNotKept) {
  const char* const before = std::getenv("XDG_STATE_HOME");
  const std::optional<std::string> state = before ? std::optional<std::string>(before) : std::nullopt;
  setenv("XDG_STATE_HOME", "/dev/null", 1);
  const std::string reason = keep_report({.name = "a GPU"}, {});
  state ? setenv("XDG_STATE_HOME", state->c_str(), 1) : unsetenv("XDG_STATE_HOME");
  EXPECT_THAT(reason, HasSubstr("/dev/null/nibble/verified-a-GPU.json"));
}

}  // namespace
}  // namespace nibble::cli
