#include "cli/measure/plausibility.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nibble::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kBandwidth{100e9};
const Reuse kOutOfCaches{1'000'000, 999'999}, kInCaches{1'000'000, 1'000'000}, kUnknownCaches{1'000'000, {}};

// Returns a result whose steps read 1 kB per token, which is never near 100 % of the bandwidth.
BenchResult result(BenchKind kind, int num_tokens, int depth, std::vector<double> tokens_per_second) {
  return {{kind, num_tokens, depth}, std::move(tokens_per_second), num_tokens, 1000};
}

TEST(Plausibility, AShareOutOfCachesCannotBeOverAHundredPerCent) {
  EXPECT_EQ(note_of_share(0.99, kOutOfCaches), "");
  EXPECT_EQ(note_of_share(1.01, kOutOfCaches), "over 100 %");
  EXPECT_EQ(note_of_share(1.01, kUnknownCaches), "over 100 %");
}

TEST(Plausibility, AShareOfWhatFitsIntoTheCachesSaysNothingOfTheMemory) {
  EXPECT_EQ(note_of_share(1.63, kInCaches), "in caches");
  EXPECT_EQ(note_of_share(0.2, kInCaches), "in caches");
  EXPECT_EQ(in_caches_text(kInCaches),
            "in caches: the data that is read repeatedly (1.00 MB) fits into the caches (1.00 MB), so shares "
            "say nothing about the memory");
}

TEST(Plausibility, ResultsThatCanBeTrueTogetherAreNotFlagged) {
  // A longer prompt is faster per token but takes longer in total. A deeper cache is slower.
  const std::vector<BenchResult> results{result(BenchKind::kPrefill, 512, 0, {1000, 1010, 990, 1000}),
                                         result(BenchKind::kPrefill, 2048, 0, {2000, 2010, 1990, 2000}),
                                         result(BenchKind::kDecode, 32, 0, {100, 101, 99, 100}),
                                         result(BenchKind::kDecode, 32, 4096, {80, 81, 79, 80})};
  EXPECT_THAT(contradictions(results, kBandwidth, kOutOfCaches), IsEmpty());
}

TEST(Plausibility, ALongerPromptThatTakesLessTimeIsFlagged) {
  const std::vector<BenchResult> results{result(BenchKind::kPrefill, 2048, 0, {4200}),
                                         result(BenchKind::kPrefill, 512, 0, {1000}),
                                         result(BenchKind::kPrefill, 2048, 16, {4000}),  // another depth
                                         result(BenchKind::kDecode, 100, 0, {4000})};    // another kind
  EXPECT_THAT(contradictions(results, kBandwidth, kOutOfCaches),
              ElementsAre("pp512 took 0.512 s and pp2048, which is more of the same work, 0.488 s"));
}

TEST(Plausibility, ADeeperCacheThatMakesATestFasterIsFlaggedBeyondTheNoise) {
  const auto decode = [](int depth, std::vector<double> speeds) {
    return result(BenchKind::kDecode, 32, depth, std::move(speeds));
  };
  const BenchResult shallow = decode(0, {37, 36.5, 37.2, 37.1});
  EXPECT_THAT(
      contradictions(std::array{shallow, decode(4096, {41, 41.5, 40.9, 42})}, kBandwidth, kOutOfCaches),
      ElementsAre(
          HasSubstr("tg32 reached 37.05 tok/s and tg32 @ d4096, which reads more of the KV cache, 41.25")));
  EXPECT_THAT(
      contradictions(std::array{shallow, decode(4096, {41, 36, 37.15, 36.9})}, kBandwidth, kOutOfCaches),
      IsEmpty());
}

TEST(Plausibility, AnImpossibleShareIsFlaggedWithItsFigures) {
  const std::vector<BenchResult> results{{{BenchKind::kDecode, 1, 0}, {163}, 1, 1e9}};
  EXPECT_THAT(
      contradictions(results, kBandwidth, kOutOfCaches),
      ElementsAre(HasSubstr(
          "tg1 reached 163 % of the read bandwidth, but the data that is read repeatedly (1.00 MB)")));
  EXPECT_THAT(contradictions(results, kBandwidth, kUnknownCaches),
              ElementsAre(HasSubstr("caches (of unknown size)")));
  EXPECT_THAT(contradictions(results, kBandwidth, kInCaches), IsEmpty());
}

}  // namespace
}  // namespace nibble::cli
