#include "cli/profile/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "core/errors/error.h"
#include "tests/error_of.h"

namespace nibble::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Json a_profile() {
  return Json::parse(R"({
      "nibble": {"commit": "aaaa"}, "machine": {"cpu": "A CPU"}, "model": "folder/tiny", "backend": "cpu",
      "kernels": [{"operation": "qkv", "kernel": "rows", "weights": "BF16", "activations": "F32"}],
      "num_tokens": 1, "depth": 0, "num_sequences": 1, "num_drafts": 0,
      "step_us": 151, "step_us_standard_deviation": 1,
      "parts": [{"part": "dense", "us": 100.0, "us_standard_deviation": 1.0},
                {"part": "experts", "us": 50.0, "us_standard_deviation": 1.0}],
      "kernel_times": [{"kernel": "qkv", "part": "dense", "us": 60.0},
                       {"kernel": "project", "part": "dense", "us": 40.0},
                       {"kernel": "experts", "part": "experts", "us": 50.0}]})");
}

std::string compared_profiles(const Json& a, const Json& b) {
  return compare_profiles("a.json", a, "b.json", b);
}

TEST(ProfileCompare, PartsHaveTheirDifferenceAndItsRatio) {
  Json b = a_profile();
  b["parts"][0]["us"] = 80.0;
  b["step_us"] = 131;
  const std::string report = compared_profiles(a_profile(), b);
  EXPECT_THAT(
      report,
      HasSubstr(
          "| dense                |      100.0 |       80.0 |     -20.0 |  0.800 |                   |"));
  EXPECT_THAT(
      report,
      HasSubstr(
          "| experts              |       50.0 |       50.0 |      +0.0 |  1.000 | within the spread |"));
  EXPECT_THAT(report, HasSubstr("| sum                  |      150.0 |      130.0 |     -20.0 |  0.867 |"));
  EXPECT_THAT(report, HasSubstr("| unrecorded step      |      151.0 |      131.0 |     -20.0 |  0.868 |"));
}

TEST(ProfileCompare, ADifferenceOfTwoStandardDeviationsIsWithinTheSpread) {
  Json b = a_profile();
  b["parts"][1]["us"] = 52.8;  // 2 * sqrt(1 + 1) is 2.83
  EXPECT_THAT(compared_profiles(a_profile(), b), HasSubstr("+2.8 |  1.056 | within the spread |"));
  b["parts"][1]["us"] = 52.9;
  EXPECT_THAT(compared_profiles(a_profile(), b), HasSubstr("+2.9 |  1.058 |                   |"));
}

TEST(ProfileCompare, KernelsComeByTheSizeOfTheirDifference) {
  Json b = a_profile();
  b["kernel_times"][1]["us"] = 10.0;
  b["kernel_times"][2]["kernel"] = "experts_up";
  const std::string report = compared_profiles(a_profile(), b);
  const size_t experts = report.find(
                   "| experts              |       50.0 |          - |     -50.0 |      - | only in A"),
               experts_up = report.find(
                   "| experts_up           |          - |       50.0 |     +50.0 |      - | only in B"),
               project = report.find("| project              |       40.0 |       10.0 |     -30.0 |"),
               qkv = report.find("| qkv                  |       60.0 |");
  ASSERT_NE(qkv, std::string::npos) << report;
  EXPECT_LT(experts, experts_up);
  EXPECT_LT(experts_up, project);
  EXPECT_LT(project, qkv);
}

TEST(ProfileCompare, ProfilesOfDifferentStepsAreRefused) {
  const auto refusal = [](const char* member, const Json& value) {
    Json b = a_profile();
    b[member] = value;
    return error_of([&] { compared_profiles(a_profile(), b); });
  };
  EXPECT_EQ(refusal("depth", 4096), "a.json and b.json are not comparable: the depth is 0 and 4096");
  EXPECT_THAT(refusal("num_tokens", 2), HasSubstr("the number of new tokens is 1 and 2"));
  EXPECT_THAT(refusal("num_sequences", 8), HasSubstr("the number of sequences is 1 and 8"));
  EXPECT_THAT(refusal("model", "other"), HasSubstr("the model is tiny and other"));
  EXPECT_EQ(refusal("model", "elsewhere/tiny"), "accepted");
}

TEST(ProfileCompare, OtherDifferencesAreListed) {
  EXPECT_THAT(compared_profiles(a_profile(), a_profile()), Not(HasSubstr(" in A, ")));
  Json b = a_profile();
  b["nibble"]["commit"] = "bbbb";
  b["backend"] = "cuda";
  b["kernels"][0]["weights"] = "MXFP4";
  EXPECT_THAT(
      compared_profiles(a_profile(), b),
      AllOf(
          HasSubstr("- commit: aaaa in A, bbbb in B\n"), HasSubstr("- backend: cpu in A, cuda in B\n"),
          HasSubstr("- qkv: rows (BF16, activations in F32) in A, rows (MXFP4, activations in F32) in B\n")));
}

TEST(ProfileCompare, TheProfileOfAnotherEngineNeedsOnlyItsParts) {
  const Json other = Json::parse(
      R"({"engine": "vLLM", "parts": [{"part": "dense", "us": 120}, {"part": "copies", "us": 5}]})");
  EXPECT_THAT(
      compared_profiles(a_profile(), other),
      AllOf(HasSubstr("| dense                |      100.0 |      120.0 |     +20.0 |  1.200 |"),
            HasSubstr("| copies               |          - |        5.0 |      +5.0 |      - | only in B"),
            HasSubstr("- engine: not recorded in A, vLLM in B\n")));
}

// files

class ProfileFiles : public testing::Test {
 protected:
  ~ProfileFiles() override { std::filesystem::remove(path_); }
  Json read(const std::string& text) {
    std::ofstream(path_) << text;
    return read_profile_file(path_);
  }

 private:
  std::filesystem::path path_{testing::TempDir() + fmt::format("compared_profiles_{}.json", getpid())};
};

TEST_F(ProfileFiles, TheLastProfileOfAFileCounts) {
  Json newest = a_profile();
  newest["depth"] = 7;
  EXPECT_EQ(read(a_profile().dump() + '\n' + newest.dump(2) + "\n")["depth"], 7);
}

TEST_F(ProfileFiles, AnythingElseIsRefused) {
  for (const char* text : {"", "[]", "1", "{}", R"({"parts": []})", R"({"parts": [1]})",
                           R"({"parts": [{"part": "dense"}]})", R"({"parts": [{"part": "dense", "us": -1}]})",
                           R"({"parts": [{"part": "dense", "us": 1}], "kernel_times": [{}]})"})
    EXPECT_THAT(error_of([&] { read(text); }), HasSubstr("the last record is not a profile")) << text;
  EXPECT_THAT(error_of([&] { read("{"); }), HasSubstr("not JSON"));
  EXPECT_THAT(error_of([] { read_profile_file("nowhere.json"); }),
              HasSubstr("nowhere.json: cannot be opened: No such file"));
}

}  // namespace
}  // namespace nibble::cli
