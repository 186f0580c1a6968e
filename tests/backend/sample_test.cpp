// Checks sampled tokens and their frequencies. Draws are a function of (seed, position), so every count is
// the same in each run. The bounds allow the deviation that a correct sampler may have from the expectation.
#include "backend/sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/numbers/random.h"

namespace nibble {
namespace {

using testing::ElementsAre;

constexpr float kNan{std::numeric_limits<float>::quiet_NaN()};
constexpr float kInfinity{std::numeric_limits<float>::infinity()};

using Tokens = std::vector<TokenId>;

SampledToken choose(std::vector<float> logits, const SampleParams& params, int position = 0,
                    const Tokens& prompt = {}, const Tokens& output = {}) {
  return sample(logits, {.sample = &params, .prompt = prompt, .output = output}, position);
}

// Returns the tokens that occur in 4000 draws. A token with a share of at least 1 % is missing with a
// probability of at most 0.99^4000 = 4e-18.
Tokens drawn(const std::vector<float>& logits, const SampleParams& params) {
  std::vector<bool> is_drawn(logits.size());
  for (int position = 0; position < 4000; ++position)
    is_drawn[static_cast<size_t>(choose(logits, params, position).token)] = true;
  Tokens tokens;
  for (size_t v = 0; v < logits.size(); ++v)
    if (is_drawn[v]) tokens.push_back(static_cast<TokenId>(v));
  return tokens;
}

std::vector<float> log_of(std::vector<double> shares) {
  std::vector<float> logits;
  for (const double share : shares) logits.push_back(static_cast<float>(std::log(share)));
  return logits;
}

TEST(SampleGreedy, TakesTheLargestLogitAndTheLowerIdOfEqualOnes) {
  EXPECT_EQ(choose({0, 3, -1, 2}, {}).token, 1);
  EXPECT_EQ(choose({0, 3, -1, 3}, {}).token, 1);
  EXPECT_EQ(choose({-5, -5, -5}, {}).token, 0);
  EXPECT_EQ(choose({7}, {}).token, 0);
}

TEST(SampleGreedy, LogitBiasIsAddedFirst) {
  EXPECT_EQ(choose({0, 3, -1, 2}, {.logit_bias = {{2, 4.5f}}}).token, 2);
  EXPECT_EQ(choose({0, 3, -1, 2}, {.logit_bias = {{1, -100}}}).token, 3);
  // The bias is added first: 3 + 1 = 4. The repetition penalty gives 4 / 2 = 2, which loses against 2.2. In
  // the opposite order, 3 / 2 + 1 = 2.5 would win.
  EXPECT_EQ(choose({2.2f, 3}, {.repetition_penalty = 2, .logit_bias = {{1, 1}}}, 0, {1}).token, 0);
}

class OnlyEven : public TokenMask {
 public:
  void fill(std::span<uint32_t> words) override { std::fill(words.begin(), words.end(), 0x55555555u); }
};

TEST(SampleMask, ExcludesTokensBeforeEverythingElse) {
  OnlyEven mask;
  const auto choose_even = [&](std::vector<float> logits, const SampleParams& params) {
    return sample(logits, {.sample = &params, .mask = &mask}, 0);
  };
  EXPECT_EQ(choose_even({0, 3, 1, 2}, {}).token, 2);
  EXPECT_EQ(choose_even({0, 3, 1, 2}, {.logit_bias = {{1, 100}}}).token, 2);
  // top_k counts only tokens that the mask allows.
  EXPECT_EQ(choose_even({0, 3, 1, 2}, {.temperature = 1, .top_k = 1}).token, 2);
  EXPECT_EQ(choose_even({-kInfinity, 3}, {}).token, -1);
  // Log-probabilities are those of the model, before the mask: of the logits 0, 3, 1, 2, token 1 has the
  // largest.
  const SampledToken token = choose_even({0, 3, 1, 2}, {.num_logprobs = 1});
  EXPECT_EQ(token.top[0].token, 1);
  EXPECT_NEAR(token.logprob, 1 - std::log(1 + std::exp(3) + std::exp(1) + std::exp(2)), 1e-6);
}

TEST(SamplePenalties, RepetitionDividesWhatIsPositiveAndMultipliesWhatIsNegative) {
  const SampleParams params{.repetition_penalty = 2};
  EXPECT_EQ(choose({3.9f, 2}, params, 0, {0}).token, 1);    // 3.9 / 2 = 1.95 < 2
  EXPECT_EQ(choose({4.1f, 2}, params, 0, {0}).token, 0);    // 4.1 / 2 = 2.05 > 2
  EXPECT_EQ(choose({-1, -1.9f}, params, 0, {0}).token, 1);  // -1 * 2 = -2 < -1.9
  EXPECT_EQ(choose({-1, -2.1f}, params, 0, {0}).token, 0);  // -1 * 2 = -2 > -2.1
}

TEST(SamplePenalties, RepetitionCountsPromptAndOutputAndEachTokenOnce) {
  const SampleParams params{.repetition_penalty = 2};
  EXPECT_EQ(choose({3, 1.4f}, params, 0, {}, {0}).token, 0);            // 3 / 2 = 1.5 > 1.4
  EXPECT_EQ(choose({3, 1.4f}, params, 0, {0, 0}, {0, 0, 0}).token, 0);  // token 0 is penalised only once
  EXPECT_EQ(choose({3, 1.6f}, params, 0, {}, {0}).token, 1);
}

TEST(SamplePenalties, PresenceIsOnceAndFrequencyForEachTimeAndThePromptIsFree) {
  const SampleParams presence{.presence_penalty = 1};
  EXPECT_EQ(choose({3, 2.1f}, presence, 0, {}, {0}).token, 1);        // 3 - 1 = 2 < 2.1
  EXPECT_EQ(choose({3, 1.9f}, presence, 0, {}, {0, 0, 0}).token, 0);  // 3 - 1 = 2 > 1.9
  EXPECT_EQ(choose({3, 2.1f}, presence, 0, {0, 0}).token, 0);

  const SampleParams frequency{.frequency_penalty = 0.5f};
  EXPECT_EQ(choose({3, 1.6f}, frequency, 0, {}, {0, 0, 0}).token, 1);  // 3 - 3 * 0.5 = 1.5 < 1.6
  EXPECT_EQ(choose({3, 1.6f}, frequency, 0, {0}, {0, 0}).token, 0);    // 3 - 2 * 0.5 = 2 > 1.6

  const SampleParams both{.presence_penalty = 1, .frequency_penalty = 0.5f};
  EXPECT_EQ(choose({3, 1.1f}, both, 0, {}, {0, 0}).token, 1);  // 3 - 1 - 2 * 0.5 = 1
  EXPECT_EQ(choose({3, 0.9f}, both, 0, {}, {0, 0}).token, 0);

  const SampleParams reward{.presence_penalty = -1};
  EXPECT_EQ(choose({2.5f, 3}, reward, 0, {}, {0}).token, 0);
}

TEST(SamplePenalties, RepetitionComesBeforePresence) {
  // 4 / 2 - 1 = 1 wins against 0.9 and loses against 1.2. In the opposite order, (4 - 1) / 2 = 1.5 would win
  // against both.
  const SampleParams params{.repetition_penalty = 2, .presence_penalty = 1};
  EXPECT_EQ(choose({4, 0.9f}, params, 0, {}, {0}).token, 0);
  EXPECT_EQ(choose({4, 1.2f}, params, 0, {}, {0}).token, 1);
}

// Returns Pearson's statistic of `num_draws` draws against the expected shares. With k degrees of freedom the
// statistic exceeds k + 2 sqrt(k x) + 2 x with a probability of at most e^-x (Laurent and Massart 2000),
// which is 1e-4 for x = 9.2.
double chi_square(const std::vector<float>& logits, const SampleParams& params,
                  const std::vector<double>& shares, int num_draws) {
  std::vector<int> counts(shares.size());
  for (int position = 0; position < num_draws; ++position)
    ++counts[static_cast<size_t>(choose(logits, params, position).token)];
  double statistic = 0;
  for (size_t v = 0; v < shares.size(); ++v) {
    const double expected = shares[v] * num_draws;
    if (expected == 0) {
      EXPECT_EQ(counts[v], 0) << "token " << v << " has no share";
      continue;
    }
    EXPECT_GT(expected, 5) << "too few draws for the statistic to mean something";
    statistic += (counts[v] - expected) * (counts[v] - expected) / expected;
  }
  return statistic;
}
double chi_square_bound(const std::vector<double>& shares) {
  const double k = static_cast<double>(shares.size() - 1 - std::count(shares.begin(), shares.end(), 0.0));
  return k + 2 * std::sqrt(k * 9.2) + 2 * 9.2;
}

std::vector<double> normalised(std::vector<double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

struct DrawCase {
  const char* name;
  SampleParams params;
  // Weights after temperature and filters for the logits log(1), .. log(8), computed by hand.
  std::vector<double> weights;
};

TEST(Sample, DrawsComeAsOftenAsTheirShare) {
  std::vector<DrawCase> cases;
  const auto add = [&](const char* name, const SampleParams& params, const std::vector<double>& weights) {
    cases.push_back({name, params, weights});
  };
  add("temperature 1", {.temperature = 1}, {1, 2, 3, 4, 5, 6, 7, 8});
  add("temperature 0.5", {.temperature = 0.5f}, {1, 4, 9, 16, 25, 36, 49, 64});
  add("temperature 1e6 is uniform", {.temperature = 1e6f}, {1, 1, 1, 1, 1, 1, 1, 1});
  add("top_k 3", {.temperature = 1, .top_k = 3}, {0, 0, 0, 0, 0, 6, 7, 8});
  add("top_k of more than all", {.temperature = 1, .top_k = 9}, {1, 2, 3, 4, 5, 6, 7, 8});
  // The sum of all weights is 36. The three largest reach half of it: 8 + 7 = 15 < 18 <= 8 + 7 + 6.
  add("top_p 0.5", {.temperature = 1, .top_p = 0.5f}, {0, 0, 0, 0, 0, 6, 7, 8});
  add("top_p of almost nothing", {.temperature = 1, .top_p = 1e-6f}, {0, 0, 0, 0, 0, 0, 0, 8});
  // min_p keeps weights of at least 0.55 * 8 = 4.4.
  add("min_p", {.temperature = 1, .min_p = 0.55f}, {0, 0, 0, 0, 5, 6, 7, 8});
  add("min_p 1", {.temperature = 1, .min_p = 1}, {0, 0, 0, 0, 0, 0, 0, 8});
  // top_p applies to the weights that top_k leaves: 0.7 * (8 + 7 + 6 + 5) = 18.2 <= 8 + 7 + 6, so 5 is left
  // out. With the sum of all weights, 0.7 * 36 = 25.2 would also keep 5. min_p leaves the same four weights.
  add("top_p after top_k", {.temperature = 1, .top_k = 4, .top_p = 0.7f}, {0, 0, 0, 0, 0, 6, 7, 8});
  add("top_p after min_p", {.temperature = 1, .top_p = 0.7f, .min_p = 0.55f}, {0, 0, 0, 0, 0, 6, 7, 8});
  // The temperature applies before min_p, top_k and top_p. At 0.5 it squares the weights, and min_p keeps
  // squares of at least 0.55 * 64 = 35.2.
  add("min_p after temperature", {.temperature = 0.5f, .min_p = 0.55f}, {0, 0, 0, 0, 0, 36, 49, 64});
  add("temperature after bias", {.temperature = 0.5f, .logit_bias = {{0, std::log(8.0f)}}},
      {64, 4, 9, 16, 25, 36, 49, 64});

  const std::vector<float> logits = log_of({1, 2, 3, 4, 5, 6, 7, 8});
  for (DrawCase& draws : cases) {
    const std::vector<double> shares = normalised(draws.weights);
    for (const uint64_t seed : {0ull, 1ull, 2ull, 0xFFFFFFFFFFFFFFFFull}) {
      draws.params.seed = seed;
      EXPECT_LT(chi_square(logits, draws.params, shares, 20000), chi_square_bound(shares))
          << draws.name << ", seed " << seed;
    }
  }
}

TEST(Sample, DrawsOfNeighbouringPositionsAndSeedsAreIndependent) {
  // Counts pairs of draws. Each draw has 4 equally likely tokens, so there are 16 cells.
  const std::vector<float> logits(4, 0.0f);
  const std::vector<double> shares(16, 1 / 16.0);
  std::vector<int> by_position(16), by_seed(16);
  const int num_pairs = 20000;
  for (int i = 0; i < num_pairs; ++i) {
    const auto at = [&](uint64_t seed, int position) {
      return choose(logits, {.temperature = 1, .seed = seed}, position).token;
    };
    ++by_position[static_cast<size_t>(at(7, i) * 4 + at(7, i + 1))];
    const auto seed = static_cast<uint64_t>(i);
    ++by_seed[static_cast<size_t>(at(seed, 7) * 4 + at(seed + 1, 7))];
  }
  for (const auto& counts : {by_position, by_seed}) {
    double statistic = 0;
    for (const int count : counts) {
      const double expected = num_pairs / 16.0;
      statistic += (count - expected) * (count - expected) / expected;
    }
    // All pairs overlap, so they are not independent. Pairs at even indices are, and so are pairs at odd
    // indices. The statistic of all pairs is at most the sum of these two, so the bound is doubled.
    EXPECT_LT(statistic, 2 * chi_square_bound(shares));
  }
}

TEST(Sample, TheSameSeedAndPositionGiveTheSameTokenAndOthersDoNot) {
  const std::vector<float> logits(1000, 0.0f);
  int num_equal_by_seed = 0, num_equal_by_position = 0;
  for (int position = 0; position < 1000; ++position) {
    const SampleParams params{.temperature = 1, .seed = 5}, other_seed{.temperature = 1, .seed = 6};
    const TokenId token = choose(logits, params, position).token;
    EXPECT_EQ(choose(logits, params, position, {1, 2}, {3}).token, token);
    num_equal_by_seed += choose(logits, other_seed, position).token == token;
    num_equal_by_position += choose(logits, params, position + 1).token == token;
  }
  // One equal draw is expected. A Poisson(1) variable exceeds 15 with a probability below 1e-13.
  EXPECT_LT(num_equal_by_seed, 15);
  EXPECT_LT(num_equal_by_position, 15);
}

TEST(SampleFilters, EqualTokensAtTheEdgeAreKeptByLowerId) {
  const std::vector<float> logits{1, 2, 1, 2, 1};
  EXPECT_THAT(drawn(logits, {.temperature = 1, .top_k = 1}), ElementsAre(1));
  EXPECT_THAT(drawn(logits, {.temperature = 1, .top_k = 3}), ElementsAre(0, 1, 3));
  const std::vector<float> equal(10, 0.0f);
  EXPECT_THAT(drawn(equal, {.temperature = 1, .top_k = 4}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(drawn(equal, {.temperature = 1, .top_p = 0.35f}), ElementsAre(0, 1, 2, 3));
  // The shares of two tokens add up to exactly 0.5, so no third token is kept.
  EXPECT_THAT(drawn({0, 0, 0, 0}, {.temperature = 1, .top_p = 0.5f}), ElementsAre(0, 1));
}

// Returns the tokens that min_p, top_k and top_p keep by their definitions, computed in the plainest way.
Tokens kept_by_definition(const std::vector<float>& logits, const SampleParams& params) {
  Tokens order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](TokenId v) { return logits[static_cast<size_t>(v)]; };
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) { return logit(a) > logit(b); });
  const auto weight = [&](TokenId v) {
    return double{std::exp((logit(v) - logit(order[0])) / params.temperature)};
  };
  std::erase_if(order, [&](TokenId v) { return weight(v) < double{params.min_p}; });
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < order.size())
    order.resize(static_cast<size_t>(params.top_k));
  double total = 0, sum = 0;
  for (const TokenId v : order) total += weight(v);
  size_t num_kept = 0;
  while (num_kept < order.size() && sum < double{params.top_p} * total) sum += weight(order[num_kept++]);
  order.resize(num_kept);
  std::sort(order.begin(), order.end());
  return order;
}

TEST(SampleFilters, KeepWhatTheirDefinitionsSay) {
  uint64_t counter = 0;
  const auto uniform = [&] { return random_unit(99, counter++); };
  for (int round = 0; round < 100; ++round) {
    std::vector<float> logits(1 + static_cast<size_t>(uniform() * 40));
    for (float& x : logits) x = static_cast<float>(std::floor(uniform() * 6) / 2);  // ties are common
    SampleParams params{.temperature = 0.25f + static_cast<float>(uniform())};
    if (uniform() < 0.5) params.top_k = static_cast<int>(uniform() * 45);
    if (uniform() < 0.5) params.top_p = 0.05f + 0.9f * static_cast<float>(uniform());
    if (uniform() < 0.5) params.min_p = static_cast<float>(uniform());
    const Tokens kept = kept_by_definition(logits, params);
    // 4000 draws may miss a rare token. So every drawn token must be a kept token, and every kept token with
    // a share of at least 1 % must be drawn.
    const Tokens seen = drawn(logits, params);
    EXPECT_TRUE(std::includes(kept.begin(), kept.end(), seen.begin(), seen.end())) << "round " << round;
    double total = 0;
    const float max_logit = *std::max_element(logits.begin(), logits.end());
    const auto weight = [&](TokenId v) {
      return std::exp(double{logits[static_cast<size_t>(v)] - max_logit} / double{params.temperature});
    };
    for (const TokenId v : kept) total += weight(v);
    for (const TokenId v : kept) {
      if (weight(v) < 0.01 * total) continue;
      EXPECT_TRUE(std::binary_search(seen.begin(), seen.end(), v)) << "token " << v << ", round " << round;
    }
  }
}

TEST(SampleFilters, OfAWholeVocabularyKeepWhatTheirDefinitionsSay) {
  std::vector<float> logits(201088);
  for (size_t v = 0; v < logits.size(); ++v) logits[v] = static_cast<float>(random_unit(3, v) * 12);
  for (const SampleParams& params :
       {SampleParams{.temperature = 1, .top_k = 50}, SampleParams{.temperature = 1, .top_p = 0.1f},
        SampleParams{.temperature = 0.3f, .top_p = 0.9f}, SampleParams{.temperature = 0.1f, .min_p = 0.5f}}) {
    const Tokens kept = kept_by_definition(logits, params);
    ASSERT_LT(kept.size(), 60000u);
    for (int position = 0; position < 100; ++position) {
      const TokenId token = choose(logits, params, position).token;
      EXPECT_TRUE(std::binary_search(kept.begin(), kept.end(), token)) << token;
    }
  }
}

TEST(SampleLogprobs, AreThoseOfTheModelBeforeAnythingChangedThem) {
  const std::vector<float> logits = log_of({0.5, 0.3, 0.2});
  const SampleParams params{
      .temperature = 0.1f, .top_k = 1, .repetition_penalty = 3, .logit_bias = {{2, 50}}, .num_logprobs = 2};
  const SampledToken sampled = choose(logits, params, 0, {0}, {1});
  EXPECT_EQ(sampled.token, 2);
  // Half a unit in the last place of float32 logits of size 1 is 6e-8. Rounding the result adds as much.
  EXPECT_NEAR(sampled.logprob, std::log(0.2), 3e-7);
  ASSERT_EQ(sampled.top.size(), 2u);
  EXPECT_EQ(sampled.top[0].token, 0);
  EXPECT_NEAR(sampled.top[0].logprob, std::log(0.5), 3e-7);
  EXPECT_EQ(sampled.top[1].token, 1);
  EXPECT_NEAR(sampled.top[1].logprob, std::log(0.3), 3e-7);
}

TEST(SampleLogprobs, AreTheRequestedNumberUpToTheVocabulary) {
  const std::vector<float> logits{1, 2, 3};
  EXPECT_TRUE(choose(logits, {.num_logprobs = -1}).top.empty());
  const SampledToken only_chosen = choose(logits, {.num_logprobs = 0});
  EXPECT_TRUE(only_chosen.top.empty());
  EXPECT_NEAR(only_chosen.logprob, -std::log(1 + std::exp(-1.0) + std::exp(-2.0)), 3e-7);
  const SampledToken all = choose(logits, {.num_logprobs = 20});
  ASSERT_EQ(all.top.size(), 3u);
  EXPECT_EQ(all.top[2].token, 0);
}

TEST(SampleLogprobs, OfLargeLogitsNeitherOverflowNorLoseTheSum) {
  // exp(1e4) would overflow. The float32 spacing at 1e4 is 1e-3, but the differences here are exact.
  const SampledToken sampled = choose({10000, 9999, -10000}, {.num_logprobs = 3});
  EXPECT_NEAR(sampled.top[0].logprob, -std::log1p(std::exp(-1.0)), 3e-7);
  EXPECT_NEAR(sampled.top[1].logprob, -1 - std::log1p(std::exp(-1.0)), 3e-7);
  // The tolerance is half a float32 step at 20000.
  EXPECT_NEAR(sampled.top[2].logprob, -20000 - std::log1p(std::exp(-1.0)), 1e-3);
  // A float32 sum of 201,088 equal weights would have an error of up to 201088 * 6e-8 / 2.
  EXPECT_NEAR(choose(std::vector<float>(201088, 1.5f), {.num_logprobs = 0}).logprob, -std::log(201088.0),
              1e-6);
}

TEST(SampleLogprobs, OfEqualTokensListTheLowerIdFirst) {
  const SampledToken sampled = choose({1, 2, 1, 2}, {.num_logprobs = 3});
  EXPECT_EQ(sampled.top[0].token, 1);
  EXPECT_EQ(sampled.top[1].token, 3);
  EXPECT_EQ(sampled.top[2].token, 0);
}

TEST(SampleOddRows, ANanIsNeverChosen) {
  EXPECT_EQ(choose({kNan, 1, kNan, 2}, {}).token, 3);
  EXPECT_EQ(choose({kNan, -kInfinity, -3}, {}).token, 2);
  EXPECT_THAT(drawn({kNan, 1, -kInfinity, 1}, {.temperature = 1}), ElementsAre(1, 3));
  EXPECT_THAT(drawn({kNan, 1, -kInfinity, 1}, {.temperature = 1, .top_k = 4}), ElementsAre(1, 3));
  EXPECT_THAT(drawn({kNan, 1, -kInfinity, 1}, {.temperature = 1, .top_p = 0.999f}), ElementsAre(1, 3));
  EXPECT_THAT(drawn({kNan, 1, -kInfinity, 1}, {.temperature = 1, .top_k = 3, .min_p = 0.1f}),
              ElementsAre(1, 3));
  const SampledToken sampled = choose({kNan, 0, 0}, {.num_logprobs = 3});
  EXPECT_NEAR(sampled.logprob, -std::log(2.0), 3e-7);
  EXPECT_EQ(sampled.top[2].logprob, -kInfinity);
}

TEST(SampleOddRows, WithoutAnyNumberNothingIsChosen) {
  for (const float temperature : {0.0f, 1.0f}) {
    const SampleParams params{.temperature = temperature, .num_logprobs = 2};
    EXPECT_EQ(choose({kNan, kNan}, params).token, -1);
    EXPECT_EQ(choose({-kInfinity, kNan, -kInfinity}, params).token, -1);
    EXPECT_TRUE(choose({-kInfinity}, params).top.empty());
  }
}

TEST(SampleOddRows, InfinityIsTheLargestNumber) {
  EXPECT_EQ(choose({1, kInfinity, 2}, {}).token, 1);
  EXPECT_THAT(drawn({1, kInfinity, 2, kInfinity}, {.temperature = 1}), ElementsAre(1, 3));
  EXPECT_NEAR(choose({1, kInfinity}, {.num_logprobs = 0}).logprob, 0, 0);
}

TEST(SampleOddRows, ExtremeParametersStillChooseATokenOfTheVocabulary) {
  const std::vector<float> logits{-3e38f, 3e38f, 0, 5, 3e38f};
  for (const float temperature : {1e-45f, 1e-6f, 1.0f, 3e38f})
    for (const float repetition : {1e-30f, 1.0f, 1e30f})
      for (const float top_p : {1e-45f, 1.0f})
        for (int position = 0; position < 50; ++position) {
          const SampleParams params{
              .temperature = temperature, .top_p = top_p, .repetition_penalty = repetition};
          const TokenId token = choose(logits, params, position, {0, 1, 2, 3}, {4}).token;
          EXPECT_GE(token, 0);
          EXPECT_LT(token, 5);
        }
  // The smallest positive temperature draws only tokens with the largest logit, and does not divide by zero.
  EXPECT_THAT(drawn({1, 3, 2, 3}, {.temperature = 1e-45f}), ElementsAre(1, 3));
}

TEST(SampleDeathTest, ATokenOutsideTheVocabularyIsACallersBug) {
  EXPECT_DEATH(choose({1, 2}, {.logit_bias = {{2, 1}}}), "token 2 of 2");
  EXPECT_DEATH(choose({1, 2}, {.presence_penalty = 1}, 0, {}, {-1}), "token -1 of 2");
}

}  // namespace
}  // namespace nibble
