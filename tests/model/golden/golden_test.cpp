#include "model/golden/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "core/errors/error.h"
#include "tests/folders.h"

namespace nibble {
namespace {

const std::filesystem::path kGolden{test::source_path("tests/golden")};

TEST(Golden, TheIndexNamesThePromptsAndItsTensorFileHoldsThem) {
  const GoldenSet set = read_golden(kGolden / "golden.json");
  EXPECT_EQ(set.vocab, 4096);
  ASSERT_EQ(set.prompts.size(), 23u);
  const GoldenPrompt& prose33 = set.prompts[2];
  EXPECT_EQ(prose33.name, "prose33");
  EXPECT_EQ(prose33.computed_by, "transformers, float32");
  EXPECT_EQ(prose33.ids.size(), 33u);
  EXPECT_EQ(prose33.num_logit_rows, 1);
  EXPECT_EQ(prose33.logits.size(), 4096u);
  EXPECT_EQ(prose33.top_ids.size(), 33u * kGoldenTop);
  EXPECT_EQ(prose33.greedy.size(), 64u);
  EXPECT_EQ(prose33.num_hidden_rows, 33);
  EXPECT_EQ(prose33.hidden.size(), 8u * 33 * 256);
  // The expected value is min_router_margin in the index.
  EXPECT_EQ(*std::min_element(prose33.router_margin.begin(), prose33.router_margin.end()),
            0.0010134577751159668f);
  EXPECT_EQ(set.prompts[5].num_hidden_rows, 1);  // prose129 has golden data of its last position only
  EXPECT_EQ(set.prompts[5].hidden.size(), 8u * 256);
  EXPECT_TRUE(set.prompts[0].hidden.empty());
}

TEST(Golden, AFileOfNumberedTensorsHoldsTheLogitsOfEveryPosition) {
  const GoldenSet set = read_golden(kGolden / "random/b/golden.safetensors");
  EXPECT_EQ(set.vocab, 384);
  ASSERT_EQ(set.prompts.size(), 2u);
  EXPECT_EQ(set.prompts[1].name, "b1");
  EXPECT_EQ(set.prompts[1].num_logit_rows, 230);
  EXPECT_EQ(set.prompts[1].logits.size(), 230u * 384);
}

TEST(Golden, AnIndexOfSomethingElseIsRefused) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "golden_of_something_else";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(kGolden / "random/a/golden.safetensors", folder / "golden.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  for (const char* index : {"[1]", R"({"vocab": 512})", R"({"vocab": 5, "prompts": []})", "not json",
                            R"({"vocab": 512, "prompts": [{"name": "unknown"}]})"}) {
    std::ofstream(folder / "golden.json") << index;
    EXPECT_THROW(read_golden(folder / "golden.json"), InputError) << index;
  }
  std::filesystem::remove_all(folder);
}

// There are two positions and a vocabulary of eight. At both positions tokens 0 to 4 are the likeliest. Their
// log-probabilities are 1 apart.
class CompareWithGolden : public testing::Test {
 protected:
  CompareWithGolden() {
    golden.ids = {1, 2};
    for (int t = 0; t < 2; ++t)
      for (int place = 0; place < kGoldenTop; ++place) {
        golden.top_ids.push_back(place);
        golden.top_logprobs.push_back(-static_cast<float>(place));
      }
    golden.num_logit_rows = 1;
    golden.logits = {0, -1, -2, -3, -4, -5, -6, -7};
    golden.router_margin = {1, 1};
    golden.greedy = {0, 5, 6};
    golden.greedy_gap = {1, 0.25f, 1};
    logits = golden.logits;
    logits.insert(logits.end(), golden.logits.begin(), golden.logits.end());
  }
  GoldenDifference difference() const {
    return compare(golden, {.logits = logits, .greedy = greedy, .hidden = {}}, tolerance);
  }

  GoldenPrompt golden;
  std::vector<float> logits;
  std::vector<TokenId> greedy{0, 5, 6};
  GoldenTolerance tolerance;
};

TEST_F(CompareWithGolden, TheSameIsWithin) {
  const GoldenDifference same = difference();
  EXPECT_EQ(same.relative_l2, 0);
  EXPECT_EQ(same.num_top_compared, 10);
  EXPECT_EQ(same.num_top_wrong, 0);
  EXPECT_EQ(same.greedy_at, std::nullopt);
  EXPECT_TRUE(is_within(same, tolerance));
}

TEST_F(CompareWithGolden, RelativeL2IsOfTheRowsThatGoldenDataHave) {
  logits[8 + 7] += 0.5f;  // the norm of 0, 1, ... 7 is sqrt(140)
  EXPECT_DOUBLE_EQ(difference().relative_l2, 0.5 / std::sqrt(140.0));
  EXPECT_DOUBLE_EQ(difference().max_logit, 0.5);
  EXPECT_FALSE(is_within(difference(), tolerance));
  logits[8 + 7] -= 0.5f;
  logits[7] += 0.5f;  // the golden data have no row for the first position
  EXPECT_EQ(difference().relative_l2, 0);
}

TEST_F(CompareWithGolden, ARowWithASmallMarginHasALimitOfItsOwn) {
  tolerance.tied_margin = 1e-2;
  tolerance.tied_l2 = 0.1;
  logits[8 + 7] += 0.5f;
  golden.router_margin[1] = 5e-3f;
  EXPECT_EQ(difference().relative_l2, 0);
  EXPECT_DOUBLE_EQ(difference().tied_l2, 0.5 / std::sqrt(140.0));
  EXPECT_TRUE(is_within(difference(), tolerance));
  logits[8 + 7] += 1;
  EXPECT_FALSE(is_within(difference(), tolerance));
  golden.router_margin[1] = 2e-2f;
  EXPECT_DOUBLE_EQ(difference().relative_l2, 1.5 / std::sqrt(140.0));
}

TEST_F(CompareWithGolden, ANanIsNeverWithin) {
  for (const size_t i : {size_t{8}, size_t{15}}) {
    std::vector<float> kept = logits;
    logits[i] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(is_within(difference(), tolerance)) << i;
    logits = kept;
  }
}

TEST_F(CompareWithGolden, LikelyTokensThatChangePlacesAreWrongAtBothPlaces) {
  std::swap(logits[1], logits[2]);
  EXPECT_EQ(difference().num_top_wrong, 2);
  EXPECT_FALSE(is_within(difference(), tolerance));
}

TEST_F(CompareWithGolden, AsManyPositionsMayBeWrongAsAreExpectedToHaveAnotherExpert) {
  std::swap(logits[1], logits[2]);
  // A margin of 1 is two standard deviations: 2 * 0.023 positions are expected to choose another expert.
  tolerance.margin_error = 0.5;
  EXPECT_EQ(difference().num_positions_wrong, 1);
  EXPECT_EQ(difference().most_positions_wrong, 0);
  EXPECT_FALSE(is_within(difference(), tolerance));
  // A margin of 1 is now one standard deviation: each of two positions chooses another expert with
  // probability 0.159. The limit is the expected 0.318 plus three standard deviations, 3 sqrt(0.318): 2.01.
  tolerance.margin_error = 1;
  EXPECT_EQ(difference().most_positions_wrong, 2);
  EXPECT_TRUE(is_within(difference(), tolerance));
}

TEST_F(CompareWithGolden, NeighboursCloserThanTheGapMayChangePlaces) {
  std::swap(logits[1], logits[2]);
  // Makes tokens 1 and 2 of the first position a near tie.
  golden.top_logprobs[2] = golden.top_logprobs[1] - 5e-4f;
  EXPECT_EQ(difference().num_top_wrong, 0);
  EXPECT_EQ(difference().num_top_compared, 8);
}

TEST_F(CompareWithGolden, AnotherFifthTokenIsWrongUnlessItIsClose) {
  logits[6] = logits[4] + 0.5f;
  EXPECT_EQ(difference().num_top_wrong, 1);
  logits[6] = logits[4] + 5e-4f;
  EXPECT_EQ(difference().num_top_wrong, 0);
  EXPECT_EQ(difference().num_top_compared, 9);
}

TEST_F(CompareWithGolden, PositionsWithATinyRouterMarginAreNotCompared) {
  std::swap(logits[1], logits[2]);
  golden.router_margin[0] = 5e-5f;
  EXPECT_EQ(difference().num_top_wrong, 0);
  EXPECT_EQ(difference().num_top_compared, 5);
}

TEST_F(CompareWithGolden, PositionsAfterANearTieMayDifferMore) {
  golden.router_margin[0] = 5e-5f;
  tolerance.top_gap_after_tie = 1.5;  // larger than 1, the gap between neighbours
  EXPECT_EQ(difference().num_top_compared, 0);
  golden.router_margin[0] = 1;
  EXPECT_EQ(difference().num_top_compared, 10);
}

// Golden data with the logits of both positions. The log-probabilities of the top 5 tokens are 3 apart.
class ComparePositions : public CompareWithGolden {
 protected:
  ComparePositions() {
    golden.num_logit_rows = 2;
    golden.logits = {0, -3, -6, -9, -12, -15, -18, -21, 0, -3, -6, -9, -12, -15, -18, -21};
    golden.top_logprobs = {0, -3, -6, -9, -12, 0, -3, -6, -9, -12};
    logits = golden.logits;
    tolerance.relative_l2 = 0.1;
    tolerance.router_margin = 0.5;
  }
  PositionsDifference positions() const { return compare_positions(golden, logits, tolerance); }
};

TEST_F(ComparePositions, TheSameIsWithin) {
  EXPECT_EQ(positions().num_top_compared, 10);
  EXPECT_TRUE(is_within(positions(), tolerance));
}

TEST_F(ComparePositions, EveryRowIsHeldToTheTolerance) {
  logits[7] += 6;  // the norm of the row is 3 sqrt(140)
  EXPECT_NEAR(positions().relative_l2, 2 / std::sqrt(140), 1e-12);
  EXPECT_FALSE(is_within(positions(), tolerance));
}

TEST_F(ComparePositions, ANearTieMayBeDecidedOtherwiseAsOftenAsIsToBeExpected) {
  logits[7] += 6;
  // A margin of 0 gives another expert with probability 1/2. The limit is the expected 0.5 positions plus
  // three standard deviations, 3 sqrt(0.5): 2.62, rounded down.
  golden.router_margin[0] = 0;
  EXPECT_EQ(positions().num_other_experts, 1);
  EXPECT_EQ(positions().most_other_experts, 2);
  EXPECT_TRUE(is_within(positions(), tolerance));
  golden.router_margin[0] = 0.499f;  // 0.001 positions with another expert are expected
  EXPECT_EQ(positions().most_other_experts, 0);
  EXPECT_FALSE(is_within(positions(), tolerance));
}

// Neighbours are compared if their gap is at least 4 sqrt(2) times the root mean square error of the row.
TEST_F(ComparePositions, NeighboursAreComparedThatAreFurtherApartThanTheErrorOfTheirRow) {
  // The required gap is 2.83, below the gap of 3.
  for (size_t i = 0; i < 8; ++i) logits[i] += i % 2 == 0 ? 0.5f : -0.5f;
  EXPECT_EQ(positions().num_top_compared, 10);
  // The required gap is 3.4, above the gap of 3.
  for (size_t i = 0; i < 8; ++i) logits[i] += i % 2 == 0 ? 0.1f : -0.1f;
  EXPECT_EQ(positions().num_top_compared, 5);
}

TEST_F(ComparePositions, AnErrorOfOneLikelyTokenIsFoundAmongManyOthers) {
  std::vector<float> unlikely(1000, -30);
  golden.logits.assign(8, 0);
  for (int i = 0; i < 8; ++i) golden.logits[i] = -3.0f * static_cast<float>(i);
  golden.logits.insert(golden.logits.end(), unlikely.begin(), unlikely.end());
  logits = golden.logits;  // logits of one position
  golden.logits.insert(golden.logits.end(), logits.begin(), logits.end());
  logits = golden.logits;
  std::swap(logits[1], logits[2]);
  EXPECT_LT(positions().relative_l2, tolerance.relative_l2);
  EXPECT_EQ(positions().num_top_wrong, 2);
  EXPECT_FALSE(is_within(positions(), tolerance));
}

TEST_F(ComparePositions, ANanIsNeverWithin) {
  logits[3] = NAN;
  EXPECT_FALSE(is_within(positions(), tolerance));
}

TEST(Bf16CacheTolerance, FollowsTheLayersAndTheSizeOfTheLogits) {
  Config config;
  config.num_layers = 9;
  GoldenSet golden;
  golden.prompts.resize(2);
  golden.prompts[0].logits = {3, -3};
  golden.prompts[1].logits = {3, 3, -3};
  const GoldenTolerance tolerance = bf16_cache_tolerance(config, golden);
  EXPECT_DOUBLE_EQ(tolerance.relative_l2, 5.0 / 256);
  EXPECT_DOUBLE_EQ(tolerance.top_gap, 9 * std::sqrt(2) * 5.0 / 256);
  EXPECT_DOUBLE_EQ(tolerance.greedy_gap, std::hypot(9 * std::sqrt(2) * 5.0 / 256, 0.4));
}

// vectors() computes from a tolerance how many vectors per layer are rounded to int8. The squared error of a
// layer, in units of (2^-8 / 3)^2, is 25 for the BF16 cache plus 32 per vector. The experts round two
// vectors; attention's output is one. qkv counts as two: its input is one, and the resulting errors of
// queries and of keys count as half a vector each. The unembedding's input is rounded once in 8 layers, so it
// counts as 1 / 8.
TEST(Int8Tolerance, FollowsTheProductsThatTakeInt8) {
  Config config;
  config.num_layers = 8;
  config.head_dim = 32;
  GoldenSet golden;
  golden.prompts.resize(1);
  golden.prompts[0].logits = {1};
  const auto vectors = [&](const Int8Products& products) {
    const double error = int8_tolerance(config, golden, products).relative_l2 * 3 * 256 / std::sqrt(8);
    return (error * error - 25) / 32;
  };
  EXPECT_NEAR(vectors({}), 0, 1e-9);
  EXPECT_NEAR(vectors({.experts = true}), 2, 1e-9);
  EXPECT_NEAR(vectors({.attention_output = true}), 1, 1e-9);
  EXPECT_NEAR(vectors({.qkv = true}), 2, 1e-9);
  EXPECT_NEAR(vectors({.unembedding = true}), 0.125, 1e-9);
  EXPECT_NEAR(vectors({.qkv = true, .attention_output = true, .experts = true, .unembedding = true}), 5.125,
              1e-9);
}

TEST(Int8Tolerance, OfNoSuchProductIsThatOfTheCache) {
  Config config;
  config.num_layers = 8;
  GoldenSet golden;
  golden.prompts.resize(1);
  golden.prompts[0].logits = {1};
  const GoldenTolerance none = int8_tolerance(config, golden, {}),
                        cache = bf16_cache_tolerance(config, golden);
  EXPECT_EQ(none.router_margin, cache.router_margin);
  EXPECT_EQ(none.tied_l2, cache.tied_l2);
  EXPECT_EQ(none.top_gap_after_tie, cache.top_gap_after_tie);
}

// The squared error of a layer, in units of (2^-8 / 3)^2, is 25 for the BF16 cache plus 6 for six roundings
// to BF16. The experts also round two vectors: their input, and the activations between up and down. Each
// adds 16^2 (MXFP8) or 64^2 (MXFP4), because the largest error of a number is 2^-4 or 2^-2.
TEST(BlockScaledTolerance, FollowsTheErrorOfANumber) {
  Config config;
  config.num_layers = 8;
  GoldenSet golden;
  golden.prompts.resize(1);
  golden.prompts[0].logits = {1};
  const auto squares = [](const GoldenTolerance& tolerance) {
    return std::pow(tolerance.relative_l2 * 3 * 256, 2) / 8;
  };
  const double bf16 = squares(bf16_tolerance(config, golden));
  EXPECT_NEAR(bf16, 25 + 6, 1e-9);
  EXPECT_NEAR(squares(block_scaled_tolerance(config, golden, kMxfp8Error)), bf16 + 2 * 16 * 16, 1e-9);
  EXPECT_NEAR(squares(block_scaled_tolerance(config, golden, kMxfp4Error)), bf16 + 2 * 64 * 64, 1e-9);
}

TEST_F(CompareWithGolden, AContinuationMayPartOnlyAtAGapWithinTheTolerance) {
  greedy = {0, 4, 3};
  EXPECT_EQ(difference().greedy_at, 1);
  EXPECT_EQ(difference().greedy_gap, 0.25f);
  EXPECT_FALSE(is_within(difference(), tolerance));
  tolerance.greedy_gap = 0.25;
  EXPECT_TRUE(is_within(difference(), tolerance));
}

TEST_F(CompareWithGolden, HiddenStatesAreHeldToTheirLargestDifference) {
  golden.hidden = {1, 2, 3};
  const std::vector<float> hidden{1, 2, 3.5f};
  const GoldenDifference apart = compare(golden, {.logits = {}, .greedy = {}, .hidden = hidden}, tolerance);
  EXPECT_EQ(apart.max_hidden, 0.5);
  EXPECT_FALSE(is_within(apart, tolerance));
}

}  // namespace
}  // namespace nibble
