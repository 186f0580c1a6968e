#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>

#include "cli/bench/bench.h"
#include "cli/bench/report.h"
#include "cli/measure/number_list.h"
#include "cli/measure/sample_statistics.h"
#include "cli/measure/speed_tests.h"
#include "tests/cli/scripted_backend.h"
#include "tests/error_of.h"
#include "tests/folders.h"

namespace nibble::cli {
namespace {

using testing::AllOf;
using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// lists of numbers

TEST(Bench, NumbersOfAListAreReadInTheirOrder) {
  EXPECT_THAT(read_numbers({"512,2048,0"}, "-p", 0, 2048), ElementsAre(512, 2048, 0));
  EXPECT_THAT(read_numbers({"7", "5,6"}, "-p", 0, 10), ElementsAre(7, 5, 6));
}

TEST(Bench, ABadListIsAnsweredWithWhatIsAccepted) {
  for (const char* text : {"512,x", "512,", ",512", "", "5 12", "-1", "2049", "1e3", "99999999999"})
    EXPECT_THAT(error_of([&] { read_numbers({text}, "-p", 0, 2048); }),
                AllOf(HasSubstr(std::string("-p '") + text + "'"), HasSubstr("from 0 to 2048")));
}

// what repetitions say

TEST(Bench, RepetitionsHaveMeanDeviationAndMedian) {
  const SampleStatistics statistics = statistics_of(std::array{98.0, 104.0, 98.0});
  EXPECT_DOUBLE_EQ(statistics.mean, 100);
  EXPECT_DOUBLE_EQ(statistics.median, 98);
  EXPECT_DOUBLE_EQ(statistics.standard_deviation, std::sqrt(12.0));  // (4 + 16 + 4) / 2
  EXPECT_EQ(statistics.note, "");
  EXPECT_DOUBLE_EQ(statistics_of(std::array{4.0, 1.0, 3.0, 2.0}).median, 2.5);
}

TEST(Bench, OneRepetitionHasNoDeviation) {
  const SampleStatistics statistics = statistics_of(std::array{5.0});
  EXPECT_EQ(statistics.standard_deviation, 0);
  EXPECT_EQ(statistics.note, "");
}

TEST(Bench, ADeviationOfMoreThanATenthIsNoisy) {
  EXPECT_EQ(statistics_of(std::array{90.0, 100.0, 110.0}).note, "");  // exactly a tenth
  EXPECT_EQ(statistics_of(std::array{89.0, 100.0, 111.0}).note, "noisy");
}

TEST(Bench, RepetitionsThatAgreeInFourDigitsAreSuspicious) {
  EXPECT_EQ(statistics_of(std::array{1234.1, 1234.2, 1233.9}).note, "suspiciously equal");
  EXPECT_EQ(statistics_of(std::array{1234.1, 1234.2, 1236.0}).note, "");
  EXPECT_EQ(statistics_of(std::array{1234.1, 1234.2}).note, "");  // two may agree by chance
}

// tests

TEST(Bench, TestsAreNamedAsLlamaBenchDoes) {
  EXPECT_EQ(name({BenchKind::kPrefill, 512, 0}), "pp512");
  EXPECT_EQ(name({BenchKind::kDecode, 32, 4096}), "tg32 @ d4096");
}

TEST(Bench, TestsComeInOrderOfDepthAndNoLengthIsNoTest) {
  std::vector<std::string> names;
  for (const BenchTest& test : list_tests(std::array{64, 16}, std::array{0, 4}, {100, 0}))
    names.push_back(name(test));
  EXPECT_THAT(names, ElementsAre("pp64", "pp16", "tg4", "pp64 @ d100", "pp16 @ d100", "tg4 @ d100"));
}

const Config kConfig = read_config(test::source_path("models/tiny-gpt-oss/config.json"));

TEST(Bench, ATestLongerThanTheContextIsRefused) {
  const BenchTest test{BenchKind::kDecode, 10, kConfig.max_context - 9};
  EXPECT_THAT(error_of([&] {
                room_for({&test, 1}, kConfig, resolve({}));
              }),
              HasSubstr("tg10 @ d131063 needs"));
  const BenchTest short_test{BenchKind::kPrefill, 100, 1};
  Settings settings;
  settings.context = 100;
  const ResolvedSettings setup = resolve(settings);
  EXPECT_THAT(error_of([&] { room_for({&short_test, 1}, kConfig, setup); }), HasSubstr("100 are allowed"));
}

// Notes what it is asked, and that every position that a token sees has a page.
class WatchedBackend : public ScriptedBackend {
 public:
  using ScriptedBackend::ScriptedBackend;

  struct Step {
    int first_position, num_tokens;
    size_t num_outputs;
    bool operator==(const Step&) const = default;
  };
  std::vector<Step> steps;
  std::vector<std::vector<TokenId>> tokens;

  StepResult step(const Batch& batch) override {
    const Run& run = batch.runs[0];
    const int num_tokens = static_cast<int>(run.tokens.size());
    steps.push_back({run.first_position, num_tokens, run.outputs.size()});
    tokens.emplace_back(run.tokens.begin(), run.tokens.end());
    const int end = run.first_position + num_tokens;
    expect_pages(run.full, 0, end);
    expect_pages(run.sliding, std::max(0, run.first_position - (config().window - 1)), end);
    for (const OutputRow& row : run.outputs) {
      EXPECT_EQ(row.token_index, num_tokens - 1);
      EXPECT_EQ(row.sample->temperature, 0);
    }
    return ScriptedBackend::step(batch);
  }

 private:
  static void expect_pages(const PageTableView& table, int first, int end) {
    EXPECT_LE(table.first_page, first / kPageTokens);
    EXPECT_LT((end - 1) / kPageTokens - table.first_page, std::ssize(table.pages));
  }
};

std::ostream& operator<<(std::ostream& out, const WatchedBackend::Step& step) {
  return out << step.num_tokens << " tokens from " << step.first_position << ", " << step.num_outputs
             << " outputs";
}

struct Outcome {
  std::vector<BenchResult> results;
  std::vector<WatchedBackend::Step> steps;
  std::vector<std::vector<TokenId>> tokens;
};
Outcome run(const std::vector<BenchTest>& tests, int max_batch_tokens, int num_repetitions) {
  WatchedBackend backend(kConfig, 0, {0});
  Settings settings;
  settings.max_batch_tokens = max_batch_tokens;
  Outcome outcome;
  run_tests(backend, room_for(tests, kConfig, resolve(settings)), {}, tests, num_repetitions,
            [&](const BenchResult& result) { outcome.results.push_back(result); });
  return {outcome.results, backend.steps, backend.tokens};
}

TEST(Bench, APromptIsRunInChunksAndItsLastTokenAloneIsFollowedByOne) {
  const Outcome outcome = run({{BenchKind::kPrefill, 10, 0}}, 4, 1);
  using Step = WatchedBackend::Step;
  EXPECT_THAT(outcome.steps, ElementsAre(Step{0, 4, 0}, Step{4, 4, 0}, Step{8, 2, 1},  // to warm up
                                         Step{0, 4, 0}, Step{4, 4, 0}, Step{8, 2, 1}));
  EXPECT_EQ(outcome.results[0].num_steps, 3);
}

TEST(Bench, EachRepetitionDecodesTheSameTokensAtTheSamePositions) {
  const Outcome outcome = run({{BenchKind::kDecode, 3, 0}}, 512, 2);
  using Step = WatchedBackend::Step;
  ASSERT_EQ(outcome.steps.size(), 9u);  // one to warm up and two
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(outcome.steps[i], (Step{static_cast<int>(i % 3), 1, 1}));
    EXPECT_EQ(outcome.tokens[i], outcome.tokens[i % 3]);
  }
  EXPECT_NE(outcome.tokens[0], outcome.tokens[1]);
  EXPECT_EQ(outcome.results[0].tokens_per_second.size(), 2u);
}

TEST(Bench, TheCacheIsFilledOnceForAllTestsOfADepth) {
  const Outcome outcome =
      run({{BenchKind::kDecode, 1, 5}, {BenchKind::kPrefill, 2, 5}, {BenchKind::kDecode, 1, 9}}, 4, 1);
  using Step = WatchedBackend::Step;
  EXPECT_THAT(outcome.steps, ElementsAre(Step{0, 4, 0}, Step{4, 1, 0},  // filled to 5
                                         Step{5, 1, 1}, Step{5, 1, 1},  //
                                         Step{5, 2, 1}, Step{5, 2, 1},  //
                                         Step{5, 4, 0},                 // filled to 9
                                         Step{9, 1, 1}, Step{9, 1, 1}));
}

// The pages are checked by the backend: the window of 128 has left the start behind, and 300 tokens at once need more
// sliding pages than chunks of 32.
TEST(Bench, WhatARepetitionSeesIsThereForTheNext) {
  run({{BenchKind::kPrefill, 300, 1000}, {BenchKind::kDecode, 200, 1000}, {BenchKind::kDecode, 40, 1100}}, 32,
      2);
}

TEST(Bench, BytesAreTheMeanOverTheStepsThatAreTimed) {
  const Outcome outcome = run({{BenchKind::kDecode, 3, 50}, {BenchKind::kPrefill, 6, 50}}, 4, 1);
  double decode = 0;
  for (const int context : {51, 52, 53})
    decode += static_cast<double>(total(step_costs(kConfig, {}, 1, context)).bytes_touched()) / 3;
  EXPECT_THAT(outcome.results[0].bytes_per_step, DoubleEq(decode));
  EXPECT_THAT(outcome.results[0].bytes_per_token(), DoubleEq(decode));

  // The first of the two chunks reads no unembedding.
  const double unembed = 2.0 * kConfig.vocab * kConfig.hidden;
  const auto both = static_cast<double>(total(step_costs(kConfig, {}, 4, 54)).bytes_touched() +
                                        total(step_costs(kConfig, {}, 2, 56)).bytes_touched());
  EXPECT_THAT(outcome.results[1].bytes_per_step, DoubleEq((both - unembed) / 2));
  EXPECT_THAT(outcome.results[1].bytes_per_token(), DoubleEq((both - unembed) / 6));
}

// output

const BenchSetup kSetup{.command_line = "nibble bench tiny --json",
                        .model = "tiny",
                        .weight_bytes = 13'306'656,
                        .num_parameters = 20'914'757'184,
                        .backend = "cpu",
                        .num_threads = 3,
                        .max_batch_tokens = 512,
                        .num_repetitions = 3,
                        .cpu = "A CPU",
                        .device = "A GPU, fast",
                        .num_cores = 4,
                        .read_bandwidth = 50e9,
                        .tuning = std::nullopt,
                        .kernels = {{"qkv", "BF16", "F32", "avx512::dot_bf16", "measured"}},
                        .counters = {{"steps that hit", 7}, {"steps that missed", 2}}};
// 100 tokens per second of 0.2 GB each are 20 GB/s.
const BenchResult kResult{{BenchKind::kDecode, 32, 4096}, {98, 104, 98}, 32, 0.2e9};

TEST(Bench, ARowOfTheTableHasSpeedAndShare) {
  const std::string row = markdown_row(kSetup, kResult);
  EXPECT_THAT(row, AllOf(HasSubstr("| tiny "), HasSubstr(" 13.3 MB |"), HasSubstr(" 20.91 B |"),
                         HasSubstr("| cpu "), HasSubstr(" 3 |"), HasSubstr("| tg32 @ d4096 ")));
  EXPECT_THAT(row, AllOf(HasSubstr(" 100.00 ± 3.46 |"), HasSubstr(" 98.00 |"), HasSubstr(" 20.0 |"),
                         HasSubstr(" 40.0 % |"), Not(HasSubstr("noisy"))));
  BenchResult noisy = kResult;
  noisy.tokens_per_second = {50, 100, 150};
  EXPECT_THAT(markdown_row(kSetup, noisy), HasSubstr("| noisy "));
}

TEST(Bench, AllLinesOfTheTableHaveTheSameColumns) {
  const std::string row = markdown_row(kSetup, kResult);
  const auto num_bars = std::count(row.begin(), row.end(), '|');
  const std::string header = markdown_header();
  EXPECT_EQ(std::count(header.begin(), header.end(), '|'), 2 * num_bars);
}

TEST(Bench, BelowTheTableStandsWhatWasMeasuredOnWhat) {
  EXPECT_THAT(markdown_footer(kSetup),
              AllOf(HasSubstr("`nibble bench tiny --json`"), HasSubstr("commit "),
                    HasSubstr("A GPU, fast; A CPU, 4 cores"), HasSubstr("50.0 GB/s"),
                    HasSubstr("qkv (BF16): avx512::dot_bf16"),
                    HasSubstr("\n- counted: 7 steps that hit, 2 steps that missed\n")));
  BenchSetup uncounted = kSetup;
  uncounted.counters.clear();
  EXPECT_THAT(markdown_footer(uncounted), Not(HasSubstr("counted")));
}

TEST(Bench, CsvHasARowOfAsManyColumnsAsItsHeaderAndQuotesText) {
  const std::string header = csv_header(), row = csv_row(kSetup, kResult);
  EXPECT_THAT(row, AllOf(HasSubstr("tiny,13306656,"), HasSubstr(",tg32 @ d4096,100,"),
                         HasSubstr(",\"A GPU, fast\"\n")));
  EXPECT_EQ(std::count(row.begin(), row.end(), ','), std::count(header.begin(), header.end(), ',') + 1);
}

TEST(Bench, JsonHasEverySample) {
  const auto json = bench_json(kSetup, {&kResult, 1});
  EXPECT_EQ(json["command_line"], "nibble bench tiny --json");
  EXPECT_EQ(json["machine"]["read_bytes_per_second"], 50e9);
  EXPECT_EQ(json["kernels"][0]["reason"], "measured");
  EXPECT_EQ(json["counters"]["steps that missed"], 2);
  EXPECT_TRUE(json["nibble"].contains("commit"));
  const auto& test = json["tests"][0];
  EXPECT_EQ(test["test"], "tg32 @ d4096");
  EXPECT_EQ(test["kind"], "decode");
  EXPECT_EQ(test["tokens_per_second"]["samples"], (std::vector<double>{98, 104, 98}));
  EXPECT_EQ(test["tokens_per_second"]["mean"], 100);
  EXPECT_EQ(test["bytes_per_step"], 0.2e9);
  EXPECT_DOUBLE_EQ(test["share_of_read_bandwidth"], 0.4);
  EXPECT_TRUE(test["note"].is_null());
}

// the command

struct Program {
  CLI::App app{"", "nibble"};
  Settings settings;
  Action action = define_bench(*app.add_subcommand("bench"), settings);
  std::string refusal(const std::string& line) {
    return error_of([&] {
      app.parse("bench " + test::source_path("models/tiny-gpt-oss") + " " + line);
      action();
    });
  }
};

TEST(Bench, FlagsThatLeaveNothingToMeasureAreRefused) {
  EXPECT_THAT(Program().refusal("-p 0 -n 0"), HasSubstr("nothing to measure"));
  EXPECT_THAT(Program().refusal("-p 512,x"), HasSubstr("-p '512,x'"));
  EXPECT_THAT(Program().refusal("-n 1 -n x"), HasSubstr("-n 'x'"));
  EXPECT_THAT(Program().refusal("-d 1000000"), HasSubstr("@ d1000000"));
  EXPECT_THAT(Program().refusal("-b 0"), HasSubstr("-b '0'"));
}

}  // namespace
}  // namespace nibble::cli
