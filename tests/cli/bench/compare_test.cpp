#include "cli/bench/compare.h"

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
using testing::StartsWith;

// Makes the parts of a `bench --json` record that are compared.
Json run(const std::vector<std::pair<std::string, std::vector<double>>>& tests) {
  Json run = Json::parse(R"({
      "nibble": {"version": "0.1.0", "commit": "aaaa", "dirty": false, "build": "Release", "compiler": "GNU 12"},
      "machine": {"cpu": "A CPU", "num_cores": 4, "device": null, "read_bytes_per_second": 5e10},
      "kernels": [{"operation": "qkv", "weights": "BF16", "activations": "F32", "kernel": "one"},
                  {"operation": "experts", "weights": "MXFP4", "activations": "INT8", "kernel": "one"}],
      "model": "tiny", "weight_bytes": 13000000, "num_parameters": 20000000, "backend": "cpu", "threads": 4,
      "max_batch_tokens": 512, "tuning": null, "contradictions": [], "tests": []})");
  for (const auto& [name, samples] : tests)
    run["tests"].push_back({{"test", name}, {"tokens_per_second", {{"samples", samples}}}});
  return run;
}

const std::vector<double> kSlow{100, 101, 99, 100.5, 100.2}, kFast{110, 111, 109, 110.5, 110.2};

std::string compared(const Json& a, const Json& b) {
  return compare_runs("a.jsonl", {a}, "b.jsonl", {b}).text;
}

std::string refusal(const std::string& pointer, const Json& value_of_b) {
  const Json a = run({{"tg32", kSlow}});
  Json b = a;
  b[Json::json_pointer(pointer)] = value_of_b;
  return error_of([&] { compared(a, b); });
}

TEST(Compare, EachTestOfBothIsSaidToDifferOrNot) {
  const std::string table =
      compared(run({{"pp512", kSlow}, {"tg32", kFast}, {"tg32 @ d9", kSlow}, {"tg64", {1, 2, 3}}}),
               run({{"tg32", kSlow}, {"pp512", kFast}, {"tg32 @ d9", kSlow}, {"tg64", {1, 2, 3}}}));
  EXPECT_THAT(
      table,
      AllOf(HasSubstr("| pp512              |     100.20 (5) |     110.20 (5) |    1.100 | 1.088 to 1.113 |  "
                      "0.012 | B is faster      |\n"),
            HasSubstr("| tg32               |     110.20 (5) |     100.20 (5) |    0.909 | 0.898 to 0.919 |  "
                      "0.012 | B is slower      |\n"),
            HasSubstr("| tg32 @ d9          |     100.20 (5) |     100.20 (5) |    1.000 | 0.988 to 1.012 |  "
                      "1.000 | within the noise |\n"),
            HasSubstr("| too few samples  |\n")));
  EXPECT_THAT(table, HasSubstr("A is a.jsonl, B is b.jsonl"));
}

TEST(Compare, SamplesOfAllRunsOfAFileCountTogether) {
  const Runs a{run({{"tg32", {100, 101}}}), run({{"tg32", {99, 100.5}}})};
  const Runs b{run({{"tg32", {110, 111}}}), run({{"tg32", {109, 110.5}}})};
  EXPECT_THAT(compare_runs("a", {a[0]}, "b", {b[0]}).text, HasSubstr("too few samples"));
  EXPECT_THAT(
      compare_runs("a", a, "b", b).text,
      HasSubstr("|     100.25 (4) |     110.25 (4) |    1.100 | 1.079 to 1.121 |  0.030 | B is faster"));
}

TEST(Compare, TheGateFailsOnlyIfATestIsSlower) {
  const Json a = run({{"pp512", kFast}, {"tg32", kSlow}});
  const ComparedRuns slower = compare_runs("a", {a}, "b", {run({{"pp512", kSlow}, {"tg32", kFast}})});
  EXPECT_THAT(slower.slower, testing::ElementsAre("pp512"));
  EXPECT_EQ(exit_code_if_slower(slower), kCheckFailed);
  EXPECT_EQ(exit_code_if_slower(compare_runs("a", {a}, "b", {run({{"pp512", kFast}, {"tg32", kFast}})})),
            kDone);
}

TEST(Compare, TheGateRefusesATestThatCouldNotFail) {
  const ComparedRuns compared = compare_runs("a", {run({{"pp512", kFast}, {"tg32", {3, 3, 3}}})}, "b",
                                             {run({{"pp512", kFast}, {"tg32", {1, 1, 1}}})});
  EXPECT_THAT(error_of([&] { exit_code_if_slower(compared); }), HasSubstr("too few samples of tg32"));
}

TEST(Compare, AnotherMachineProgramOrNumberOfThreadsIsSaid) {
  const Json a = run({{"tg32", kSlow}});
  EXPECT_THAT(compared(a, a), Not(HasSubstr(" in A, ")));
  Json b = a;
  b["machine"]["cpu"] = "Another";
  b["machine"]["device"] = {{"name", "A GPU"}};
  b["threads"] = 8;
  b["nibble"]["commit"] = "bbbb";
  b["kernels"][0]["kernel"] = "two";  // changes only the speed, not the results
  EXPECT_THAT(compared(a, b),
              AllOf(HasSubstr("- CPU: A CPU in A, Another in B\n"), HasSubstr("- threads: 4 in A, 8 in B\n"),
                    HasSubstr("- commit: aaaa in A, bbbb in B\n"),
                    HasSubstr("- GPU: not recorded in A, A GPU in B\n")));
}

TEST(Compare, TestsThatOneFileLacksAreNamed) {
  EXPECT_THAT(
      compared(run({{"pp1", kSlow}, {"tg1", kSlow}}), run({{"tg1", kSlow}, {"tg2", kSlow}})),
      AllOf(HasSubstr("- pp1 is only in A\n"), HasSubstr("- tg2 is only in B\n"), HasSubstr("| tg1 ")));
}

TEST(Compare, WhatContradictsItselfInARecordIsRepeated) {
  Json doubtful = run({{"tg32", kSlow}});
  doubtful["contradictions"] = {"tg32 reached 163 %"};
  EXPECT_THAT(compared(run({{"tg32", kSlow}}), doubtful),
              HasSubstr("- B contradicts itself: tg32 reached 163 %\n"));
}

TEST(Compare, OtherWorkIsRefusedByWhatDiffers) {
  EXPECT_EQ(refusal("/model", "other"),
            "a.jsonl and b.jsonl are not comparable: the model is tiny and other");
  EXPECT_THAT(refusal("/weight_bytes", 1), HasSubstr("the size of the weights in bytes is 13000000 and 1"));
  EXPECT_THAT(refusal("/backend", "cuda"), HasSubstr("the backend is cpu and cuda"));
  EXPECT_THAT(refusal("/kernels/0/weights", "FP8"),
              HasSubstr("the format of qkv is BF16 with activations in F32 and FP8 with activations in F32"));
  EXPECT_THAT(refusal("/kernels/1/activations", "F32"),
              HasSubstr("the format of experts is MXFP4 with activations in INT8 and"));
  EXPECT_THAT(refusal("/tests/0/test", "tg64"), HasSubstr("the tests are tg32 and tg64"));
  EXPECT_EQ(refusal("/model", "/in/another/folder/tiny"), "accepted");
}

TEST(Compare, RunsOfOneFileAreTheSameWorkToo) {
  Json other = run({{"tg32", kSlow}});
  other["model"] = "other";
  EXPECT_THAT(error_of([&] {
                compare_runs("a", {run({{"tg32", kSlow}}), other}, "b", {run({{"tg32", kSlow}})});
              }),
              HasSubstr("a and a are not comparable: the model is tiny and other"));
}

// files

class CompareFiles : public testing::Test {
 protected:
  ~CompareFiles() override { std::filesystem::remove(path_); }
  std::filesystem::path write(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }
  std::string refusal(const std::string& text) {
    return error_of([&] { read_runs(write(text)); });
  }

 private:
  std::filesystem::path path_{testing::TempDir() + fmt::format("compared_records_{}.jsonl", getpid())};
};

TEST_F(CompareFiles, RunsFollowEachOther) {
  const std::string line = run({{"tg32", kSlow}}).dump(), pretty = run({{"tg32", kFast}}).dump(2);
  const Runs runs = read_runs(write(line + '\n' + pretty + "\n\n"));
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[1]["tests"][0]["tokens_per_second"]["samples"], Json(kFast));
}

TEST_F(CompareFiles, AnythingElseIsRefused) {
  EXPECT_THAT(refusal(""), HasSubstr("contains no record"));
  EXPECT_THAT(refusal(run({{"tg32", kSlow}}).dump() + "\n{\"engine\": \"nibble\"}"),
              HasSubstr("record 2 is not a record of 'nibble bench --json'"));
  for (const char* text : {"{", "[]", "1", "x", R"({"tests": [{"test": "tg1"}]})",
                           R"({"tests": [{"test": "tg1", "tokens_per_second": {"samples": []}}]})",
                           R"({"tests": [{"test": 1, "tokens_per_second": {"samples": [1]}}]})",
                           R"({"tests": [{"test": "tg1", "tokens_per_second": {"samples": ["1"]}}]})",
                           R"({"tests": [{"test": "tg1", "tokens_per_second": {"samples": [0]}}]})"})
    EXPECT_THAT(refusal(text), HasSubstr("record 1 is not a record")) << text;
  EXPECT_THAT(error_of([] { read_runs("nowhere.jsonl"); }),
              StartsWith("nowhere.jsonl: cannot be opened: No such file"));
}

}  // namespace
}  // namespace nibble::cli
