#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <sstream>

#include "cli/bench/report.h"
#include "cli/bench/table.h"
#include "cli/command.h"
#include "cli/measure/sample_statistics.h"
#include "cli/measure/speed_tests.h"
#include "cli/options.h"
#include "core/numbers/random.h"
#include "setup/start/resolve.h"
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

// statistics of repetitions

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
  EXPECT_EQ(statistics_of(std::array{90.0, 100.0, 110.0}).note, "");  // the deviation is exactly a tenth
  EXPECT_EQ(statistics_of(std::array{89.0, 100.0, 111.0}).note, "noisy");
}

TEST(Bench, RepetitionsThatAgreeInFiveDigitsAreSuspicious) {
  EXPECT_EQ(statistics_of(std::array{1234.11, 1234.12, 1234.09}).note, "suspiciously equal");
  EXPECT_EQ(statistics_of(std::array{1234.1, 1234.2, 1233.9}).note, "");
  EXPECT_EQ(statistics_of(std::array{1234.11, 1234.12}).note, "");  // two samples may be equal by chance
}

// comparing two sets of repetitions

TEST(Bench, TheRankTestGivesTheProbabilitiesOfTheTables) {
  // Exact two-sided probabilities: 2/252, 14/252, 2/70, 1, 1. The normal approximation is above the first by
  // 54 %, above the second by 8 %, and above the third by 6 %.
  EXPECT_NEAR(rank_test(std::array{1.0, 2.0, 3.0, 4.0, 5.0}, std::array{6.0, 7.0, 8.0, 9.0, 10.0}), 0.0079,
              0.005);
  EXPECT_NEAR(rank_test(std::array{1.0, 2.0, 3.0, 4.0, 8.0}, std::array{5.0, 6.0, 7.0, 9.0, 10.0}), 0.0556,
              0.005);
  EXPECT_NEAR(rank_test(std::array{1.0, 2.0, 3.0, 4.0}, std::array{5.0, 6.0, 7.0, 8.0}), 0.0286, 0.002);
  EXPECT_EQ(rank_test(std::array{1.0, 4.0}, std::array{2.0, 3.0}), 1);
  EXPECT_EQ(rank_test(std::array{5.0, 5.0, 5.0, 5.0}, std::array{5.0, 5.0, 5.0, 5.0}), 1);
}

TEST(Bench, TiesCountHalfForEach) {
  // The two ties count as 1 win of `a` in 16 pairs. Without the correction for ties the variance would be 12
  // and the probability 0.061.
  EXPECT_NEAR(rank_test(std::array{1.0, 1.0, 2.0, 2.0}, std::array{2.0, 3.0, 3.0, 3.0}), 0.0471, 0.0005);
}

TEST(Bench, SpeedsThatLieApartDifferBeyondTheNoise) {
  const std::array a{100.0, 101.0, 99.0, 100.5, 100.2};
  const Difference faster = compare_speeds(a, std::array{110.0, 111.0, 109.0, 110.5, 110.2});
  EXPECT_EQ(faster.b_is, Comparison::kFaster);
  EXPECT_NEAR(faster.ratio, 110.2 / 100.2, 1e-12);
  EXPECT_EQ(compare_speeds(a, std::array{90.0, 91.0, 89.0, 90.5, 90.2}).b_is, Comparison::kSlower);
}

TEST(Bench, SpeedsThatOverlapAreWithinTheNoiseHoweverFarTheirMeans) {
  const std::array a{100.0, 101.0, 99.0, 100.5, 100.2};
  EXPECT_EQ(compare_speeds(a, std::array{100.1, 99.5, 100.7, 98.0, 101.5}).b_is, Comparison::kWithinNoise);
  // One disturbed repetition moves the mean by a sixth, but does not change the median.
  EXPECT_EQ(compare_speeds(a, std::array{100.1, 99.5, 100.7, 20.0, 100.3}).b_is, Comparison::kWithinNoise);
}

TEST(Bench, ADifferenceOfLessThanAPerCentIsNotCalledOne) {
  const std::array a{100.0, 100.01, 100.02, 100.03, 100.04};
  const Difference small = compare_speeds(a, std::array{100.5, 100.51, 100.52, 100.53, 100.54});
  EXPECT_LT(small.chance, 0.05);
  EXPECT_EQ(small.b_is, Comparison::kWithinNoise);
}

TEST(Bench, TheIntervalOfFiveAgainstFiveReachesFromTheThirdToTheThirdLastRatio) {
  const std::array a{1.0, 1.0, 1.0, 1.0, 1.0}, b{2.0, 3.0, 4.0, 5.0, 6.0};
  const auto interval = compare_speeds(a, b).interval;  // each sample of `b` gives five of the 25 ratios
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->low, 2);
  EXPECT_EQ(interval->high, 6);
  const std::array c{1.0, 10.0, 100.0, 1000.0, 10000.0};  // ratios of c to 1, 1.1 ... 1.4 are all different
  const auto spread = compare_speeds(std::array{1.0, 1.1, 1.2, 1.3, 1.4}, c).interval;
  ASSERT_TRUE(spread);
  EXPECT_DOUBLE_EQ(spread->low, 1 / 1.2);
  EXPECT_DOUBLE_EQ(spread->high, 10000 / 1.2);
}

TEST(Bench, TheIntervalHoldsTheTrueRatioInNineteenOfTwentyMeasurements) {
  constexpr int kTrials{4000};
  constexpr double kTrueRatio{1.03};
  for (const size_t n : {4, 5, 10, 15}) {
    int num_held = 0;
    uint64_t at = 0;
    const auto samples = [&](double speed) {
      std::vector<double> all(n);
      for (double& sample : all) {  // normally distributed by the Box-Muller method, with a deviation of 2 %
        const double radius = std::sqrt(-2 * std::log(1 - random_unit(n, at)));
        sample = speed * (1 + 0.02 * radius * std::cos(2 * std::numbers::pi * random_unit(n, at + 1)));
        at += 2;
      }
      return all;
    };
    for (int trial = 0; trial < kTrials; ++trial) {
      const auto interval = compare_speeds(samples(100), samples(100 * kTrueRatio)).interval;
      ASSERT_TRUE(interval);
      num_held += interval->low <= kTrueRatio && kTrueRatio <= interval->high;
    }
    EXPECT_GE(num_held, 0.94 * kTrials) << n;  // 95 %, less three standard deviations of 4000 trials
    EXPECT_LE(num_held, 0.98 * kTrials) << n;  // n = 4: 97.1 % = 1 - 2 / 70, as 2 of 70 orders are rejected
  }
}

TEST(Bench, ThreeAgainstThreeAreTooFew) {
  EXPECT_EQ(compare_speeds(std::array{1.0, 2.0, 3.0}, std::array{10.0, 11.0, 12.0}).b_is,
            Comparison::kTooFewSamples);
  EXPECT_EQ(compare_speeds(std::array{1.0, 2.0, 3.0, 4.0}, std::array{10.0, 11.0, 12.0, 13.0}).b_is,
            Comparison::kFaster);
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

TEST(Bench, ADepthThatIsNamedTwiceIsMeasuredOnce) {
  EXPECT_EQ(list_tests(std::array{64}, {}, {7, 0, 7}).size(), 2u);
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
  EXPECT_THAT(error_of([&] { room_for({&short_test, 1}, kConfig, setup); }), HasSubstr("the maximum is 100"));
}

// Records every step, and checks that every position to which a token attends has a page.
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
Outcome run(const std::vector<BenchTest>& tests, int max_batch_tokens, int num_repetitions,
            int num_warmups = 1) {
  WatchedBackend backend(kConfig, 0, {0});
  Settings settings;
  settings.max_batch_tokens = max_batch_tokens;
  Outcome outcome;
  run_tests(backend, room_for(tests, kConfig, resolve(settings)),
            {.tests = tests, .num_repetitions = num_repetitions, .num_warmups = num_warmups},
            [&](const BenchResult& result) { outcome.results.push_back(result); });
  return {outcome.results, backend.steps, backend.tokens};
}

TEST(Bench, APromptIsRunInChunksAndItsLastTokenAloneIsFollowedByOne) {
  const Outcome outcome = run({{BenchKind::kPrefill, 10, 0}}, 4, 1);
  using Step = WatchedBackend::Step;
  EXPECT_THAT(outcome.steps, ElementsAre(Step{0, 4, 0}, Step{4, 4, 0}, Step{8, 2, 1},  // warm-up
                                         Step{0, 4, 0}, Step{4, 4, 0}, Step{8, 2, 1}));
  EXPECT_EQ(outcome.results[0].num_steps, 3);
}

TEST(Bench, EachRepetitionDecodesTheSameTokensAtTheSamePositions) {
  const Outcome outcome = run({{BenchKind::kDecode, 3, 0}}, 512, 2);
  using Step = WatchedBackend::Step;
  ASSERT_EQ(outcome.steps.size(), 9u);  // one warm-up and two repetitions
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(outcome.steps[i], (Step{static_cast<int>(i % 3), 1, 1}));
    EXPECT_EQ(outcome.tokens[i], outcome.tokens[i % 3]);
  }
  EXPECT_NE(outcome.tokens[0], outcome.tokens[1]);
  EXPECT_EQ(outcome.results[0].tokens_per_second.size(), 2u);
}

TEST(Bench, WarmUpsAreRunAsOftenAsWantedAndNotTimed) {
  for (const int num_warmups : {0, 3}) {
    const Outcome outcome = run({{BenchKind::kDecode, 2, 0}}, 512, 4, num_warmups);
    EXPECT_EQ(outcome.steps.size(), static_cast<size_t>(2 * (num_warmups + 4)));
    EXPECT_EQ(outcome.results[0].tokens_per_second.size(), 4u);
  }
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

// WatchedBackend checks that every position to which a token attends has a page. The tests start after the
// first positions have left the window of 128, and their chunks of 32 tokens get fewer sliding pages than
// one step of 300 tokens would need.
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

  // The first of the two chunks does not read the unembedding, because it returns no logits.
  const double unembed = 2.0 * kConfig.vocab * kConfig.hidden;
  const auto both = static_cast<double>(total(step_costs(kConfig, {}, 4, 54)).bytes_touched() +
                                        total(step_costs(kConfig, {}, 2, 56)).bytes_touched());
  EXPECT_THAT(outcome.results[1].bytes_per_step, DoubleEq((both - unembed) / 2));
  EXPECT_THAT(outcome.results[1].bytes_per_token(), DoubleEq((both - unembed) / 6));
}

TEST(Bench, OperationsAreThoseOfThePromptAndOfOneRowOfLogits) {
  const Outcome outcome = run({{BenchKind::kPrefill, 6, 50}}, 4, 1);
  const double unembed = 2.0 * kConfig.vocab * kConfig.hidden;
  const auto both = static_cast<double>(total(step_costs(kConfig, {}, 4, 54)).flops +
                                        total(step_costs(kConfig, {}, 2, 56)).flops);
  EXPECT_THAT(outcome.results[0].flops_per_token(), DoubleEq((both - unembed) / 6));
}

// output

constexpr size_t kMegabyte{1 << 20};

Machine machine() {
  return {.cpu = "A CPU",
          .num_cores = 4,
          .memory_bytes = 32'000 * kMegabyte,
          .cache_bytes = 30 * kMegabyte,
          .cpu_mhz = {},
          .highest_cpu_mhz = {},
          .device = DeviceFacts{.name = "A GPU, fast",
                                .driver = "580.1",
                                .num_multiprocessors = {},
                                .memory_bytes = {},
                                .cache_bytes = 2 * kMegabyte,
                                .core_mhz = 1700,
                                .highest_core_mhz = 1980,
                                .memory_mhz = {},
                                .highest_memory_mhz = {},
                                .power_watts = 651.4,
                                .power_limit_watts = 700,
                                .temperature_celsius = {}}};
}

const BenchSetup kSetup{
    .record = {.date = "2026-11-22T02:36:02Z",
               .command_line = "nibble bench tiny --json",
               .machine = machine(),
               .kernels = {{Operation::kQkv, "BF16", "F32", "avx512::dot_bf16", "measured"}},
               .num_warmups = 1},
    .model = "tiny",
    .weight_bytes = 13'306'656,
    .num_parameters = 20'914'757'184,
    .backend = "cpu",
    .num_threads = 3,
    .max_batch_tokens = 512,
    .num_repetitions = 3,
    .read_bandwidth = 50e9,
    .tuning = std::nullopt,
    .launches = {{"attend", 72}},
    .counters = {{"steps that hit", "hit", 7}, {"steps that missed", "missed", 2}}};
// 100 tok/s that read 0.2 GB each are 20 GB/s.
const BenchResult kResult{{BenchKind::kDecode, 32, 4096}, {98, 104, 98}, 32, 0.2e9};

BenchResult result_of(const BenchTest& test, std::vector<double> tokens_per_second) {
  return {test, std::move(tokens_per_second), 1, 0.2e9};
}

// Returns the width of UTF-8 text in characters.
int width_of(const std::string& line) {
  return static_cast<int>(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

TEST(Bench, AListHasARowForEachTestWithSpeedAndShare) {
  BenchTable table(kSetup, std::array{kResult.test});
  EXPECT_THAT(table.head(), HasSubstr("tiny: 13.3 MB, 20.91 B parameters; cpu, 3 threads\n"));
  EXPECT_THAT(table.add(kResult),
              AllOf(HasSubstr("| tg32 @ d4096 "), HasSubstr(" 100.00 ± 3.46 |"), HasSubstr(" 98.00 |"),
                    HasSubstr(" 20.0 |"), HasSubstr(" 40.0 % |"), Not(HasSubstr("noisy"))));
  BenchResult noisy = kResult;
  noisy.tokens_per_second = {50, 100, 150};
  EXPECT_THAT(table.add(noisy), HasSubstr("| noisy "));
  EXPECT_EQ(table.notes(), "");
}

TEST(Bench, BelowTheTableStandHowManyOperationsASecondPromptsReach) {
  const BenchTest prompt{BenchKind::kPrefill, 512, 0}, deep{BenchKind::kPrefill, 512, 4096};
  BenchTable table(kSetup, std::array{prompt, kResult.test, deep});
  // 10,000 tok/s of 12.5 GFLOP each are 125 TFLOP/s.
  table.add({prompt, {9999, 10001}, 2, 1e9, 256 * 12.5e9});
  table.add(kResult);
  table.add({deep, {99, 101}, 2, 1e9, 256 * 12.5e9});
  EXPECT_EQ(table.notes(), "\n- matrix products of prompts: pp512 125 TFLOP/s, pp512 @ d4096 1.25 TFLOP/s\n");
}

TEST(Bench, SeveralDepthsAndLengthsMakeAGridWithARowForEachDepth) {
  const std::vector<BenchTest> tests =
      list_tests(std::array{512, 2048, 8192}, std::array{32, 128}, {0, 4096, 32768});
  BenchTable table(kSetup, tests);
  std::string text = table.head();
  for (const BenchTest& test : tests)
    text += table.add({test, {100.0 + test.num_tokens, 101.0 + test.num_tokens}, 1, 1e6 * test.num_tokens});
  std::vector<std::string> lines;
  for (std::istringstream in(text.substr(text.find("\n\n") + 2)); lines.size() < 20;) {
    lines.emplace_back();
    if (!std::getline(in, lines.back())) break;
  }
  lines.pop_back();
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0],
            "|   depth |      pp512 |     pp2048 |     pp8192 |     tg32 (share) |    tg128 (share) |");
  EXPECT_EQ(lines[1],
            "| ------: | ---------: | ---------: | ---------: | ---------------: | ---------------: |");
  // 132.5 tok/s that read 1 MB each are 0.27 % of 50 GB/s; 228.5 tok/s are just below half a per cent.
  EXPECT_EQ(lines[3],
            "|    4096 |     612.50 |       2148 |       8292 |     132.50 (0 %) |     228.50 (0 %) |");
  for (const std::string& line : lines) EXPECT_LE(width_of(line), 100);
}

TEST(Bench, AListIsNoWiderThanAHundredColumns) {
  BenchTable table(kSetup, std::array{kResult.test});
  std::istringstream lines(table.head() +
                           table.add(result_of({BenchKind::kPrefill, 1 << 20, 0}, {12345.6, 23456.7})));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(width_of(line), 100) << line;
}

TEST(Bench, AllLinesOfATableHaveTheSameColumns) {
  BenchTable table(kSetup, std::array{kResult.test});
  const std::string row = table.add(kResult), head = table.head();
  EXPECT_EQ(std::count(head.begin(), head.end(), '|'), 2 * std::count(row.begin(), row.end(), '|'));
}

TEST(Bench, BelowAGridStandsWhatItsCellsDoNotSay) {
  const std::vector<BenchTest> tests = list_tests(std::array{64}, std::array{8}, {0, 100});
  BenchTable table(kSetup, tests);
  for (const BenchTest& test : tests)
    table.add(
        result_of(test, {test.kind == BenchKind::kDecode && test.depth > 0 ? 50.0 : 100.0, 100.5, 101}));
  EXPECT_EQ(table.notes(), "\n- tg8 @ d100 is noisy: 83.83 ± 29.30\n");
}

TEST(Bench, WeightsThatFitIntoTheCachesAreSaidToBeThere) {
  BenchSetup setup = kSetup;
  setup.weight_bytes = kMegabyte;
  BenchTable table(setup, std::array{kResult.test});
  BenchResult fast = kResult;
  fast.bytes_per_step = 0.815e9;  // 163 % of the bandwidth
  EXPECT_THAT(table.add(fast), AllOf(HasSubstr(" 163.0 % |"), HasSubstr("| in caches ")));
  EXPECT_EQ(table.notes(),
            "\n- in caches: the data that is read repeatedly (1.05 MB) fits into the caches (2.10 MB), so "
            "shares say nothing about the memory\n");
}

TEST(Bench, AShareThatIsTooLargeIsFlagged) {
  BenchTable table(kSetup, std::array{kResult.test});
  BenchResult fast = kResult;
  fast.bytes_per_step = 0.815e9;
  EXPECT_THAT(table.add(fast), AllOf(HasSubstr(" 163.0 % |"), HasSubstr("| over 100 % ")));
  EXPECT_THAT(table.notes(),
              HasSubstr("\n- contradiction: tg32 @ d4096 reached 163 % of the read bandwidth"));
  EXPECT_THAT(bench_json(kSetup, {&fast, 1})["contradictions"][0], HasSubstr("tg32 @ d4096 reached 163 %"));
}

TEST(Bench, BelowTheTableStandsWhatWasMeasuredOnWhat) {
  EXPECT_THAT(
      markdown_footer(kSetup),
      AllOf(
          HasSubstr("`nibble bench tiny --json`"), HasSubstr("commit "),
          HasSubstr("`, 2026-11-22T02:36:02Z: nibble "),
          HasSubstr("A GPU, fast, driver 580.1, 1700 MHz (highest 1980), 651 W (limit 700); A CPU, 4 cores"),
          HasSubstr("50.0 GB/s"), HasSubstr("3 repetitions (warm-up: 1)"),
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

TEST(Bench, JsonAndCsvHaveTheOperationsPerSecond) {
  BenchResult result = kResult;
  result.flops_per_step = 3e9;  // a step of one token, at 100 tok/s
  EXPECT_EQ(bench_json(kSetup, {&result, 1})["tests"][0]["flops_per_second"], 3e11);
  EXPECT_THAT(csv_row(kSetup, result), HasSubstr(",300000000000,"));
}

TEST(Bench, JsonHasEverySample) {
  const auto json = bench_json(kSetup, {&kResult, 1});
  EXPECT_EQ(json["date"], "2026-11-22T02:36:02Z");
  EXPECT_EQ(json["command_line"], "nibble bench tiny --json");
  EXPECT_EQ(json["machine"]["read_bytes_per_second"], 50e9);
  EXPECT_EQ(json["kernels"][0]["reason"], "measured");
  EXPECT_EQ(json["counters"]["steps that missed"], 2);
  EXPECT_EQ(json["kernel_launches"]["attend"], 72);
  EXPECT_TRUE(json["nibble"].contains("commit"));
  const auto& test = json["tests"][0];
  EXPECT_EQ(test["test"], "tg32 @ d4096");
  EXPECT_EQ(test["kind"], "decode");
  EXPECT_EQ(test["tokens_per_second"]["samples"], (std::vector<double>{98, 104, 98}));
  EXPECT_EQ(test["tokens_per_second"]["mean"], 100);
  EXPECT_EQ(test["bytes_per_step"], 0.2e9);
  EXPECT_DOUBLE_EQ(test["share_of_read_bandwidth"], 0.4);
  EXPECT_TRUE(test["note"].is_null());
  EXPECT_TRUE(json["contradictions"].empty());
}

// the command

struct BenchProgram {
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
  EXPECT_THAT(BenchProgram().refusal("-p 0 -n 0"), HasSubstr("nothing to measure"));
  EXPECT_THAT(BenchProgram().refusal("-p 512,x"), HasSubstr("-p '512,x'"));
  EXPECT_THAT(BenchProgram().refusal("-n 1 -n x"), HasSubstr("-n 'x'"));
  EXPECT_THAT(BenchProgram().refusal("-d 1000000"), HasSubstr("@ d1000000"));
  EXPECT_THAT(BenchProgram().refusal("-b 0"), HasSubstr("-b '0'"));
}

// Returns the program's error for a command line.
std::string refusal_of(const std::string& line) {
  BenchProgram program;
  program.app.require_subcommand(1);
  try {
    program.app.parse("bench " + line);
  } catch (const CLI::ParseError& error) {
    return explain(program.app, error);
  }
  return error_of([&] { program.action(); });
}

TEST(Bench, ComparingMeasuresNothingAndTakesNoFlags) {
  EXPECT_THAT(refusal_of("compare a b c"), HasSubstr("unexpected argument 'c'"));
  EXPECT_THAT(refusal_of("compare a b -p 5"),
              HasSubstr("unknown flag '-p'. See 'nibble bench compare --help'"));
  EXPECT_THAT(refusal_of("compare a b --threads 2"), HasSubstr("unknown flag '--threads'"));
  EXPECT_THAT(refusal_of("compare a b"), HasSubstr("a: cannot be opened: No such file"));
  EXPECT_THAT(refusal_of("compare a"), HasSubstr("B is required"));
}

TEST(Bench, FlagsThatHaveBecomeCommandsNameThem) {
  EXPECT_THAT(refusal_of("tiny --clients 1,4 -p 16"), HasSubstr("nibble bench clients MODEL --clients"));
  EXPECT_THAT(refusal_of("tiny --clients=4"), HasSubstr("nibble bench clients MODEL --clients"));
  EXPECT_THAT(refusal_of("tiny --replay a.jsonl --speculate auto"),
              HasSubstr("nibble bench replay MODEL FILE"));
  EXPECT_THAT(refusal_of("tiny --acceptance 0.5"), HasSubstr("nibble bench acceptance MODEL PROFILE..."));
  EXPECT_THAT(refusal_of("--compare a b"), HasSubstr("nibble bench compare A B"));
  EXPECT_THAT(refusal_of("tiny --speculate auto"), HasSubstr("random tokens can't be drafted"));
  EXPECT_THAT(refusal_of("compare a b --replay c"),
              HasSubstr("unknown flag '--replay'. See 'nibble bench compare --help'"));
}

TEST(Bench, FlagsBeforeACommandAreRefused) {
  EXPECT_EQ(refusal_of("--json compare a b"), "--json has to follow the command: nibble bench compare ...");
  EXPECT_EQ(refusal_of("tiny compare a b"), "MODEL has to follow the command: nibble bench compare ...");
}

TEST(Bench, ItsCommandsHaveTheirOwnLimits) {
  EXPECT_THAT(refusal_of("clients tiny -n 1"), HasSubstr("2 to 1048576"));
  EXPECT_THAT(refusal_of("clients tiny --clients 1025"), HasSubstr("from 1 to 1024"));
  EXPECT_THAT(refusal_of("replay tiny a.jsonl --clients 0"), HasSubstr("1 to 1024"));
  EXPECT_THAT(refusal_of("replay tiny"), HasSubstr("FILE is required"));
  EXPECT_THAT(refusal_of("acceptance tiny 0.5,1.5"),
              HasSubstr("PROFILE '0.5,1.5': expected numbers from 0 to 1"));
}

}  // namespace
}  // namespace nibble::cli
