// Tests the controller's choices for given step costs and acceptance probabilities. No real time is measured.
#include "speculative/controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <random>

#include "speculative/acceptance.h"
#include "speculative/speculator.h"

namespace nibble::speculative {
namespace {

// Returns the seconds of a step of `num_sequences` sequences and `num_more_rows` additional rows.
using Cost = std::function<double(int num_sequences, int num_more_rows)>;
const Cost kByRows = [](int n, int more) { return 0.001 * (n + more); };  // a CPU: all rows cost the same
// A 120b model on a GPU: a row costs 0.37 of a step.
const Cost kByBytes = [](int n, int more) { return 0.001 * (1 + 0.37 * (n - 1 + more)); };
// A GPU whose rows share experts: 64 sequences read nearly all experts anyway.
const Cost kByExperts = [](int n, int more) {
  return 0.0013 + 0.0136 * (1 - std::pow(1 - 4.0 / 128, n + more)) + 6e-6 * (n + more);
};
const Cost kFree = [](int n, int more) { return 0.001 * (1 + 0.01 * (n + more)); };

// Counts a proposal whose first `num_right` tokens were right and, with `has_wrong`, whose next token was
// wrong.
void count(Acceptance& acceptance, int num_right, bool has_wrong) {
  for (int place = 0; place < num_right; ++place) acceptance.add(place, true);
  if (has_wrong) acceptance.add(num_right, false);
}

TEST(Acceptance, IsTheShareOfThoseThatWereRightLately) {
  Acceptance acceptance(0.9);
  EXPECT_DOUBLE_EQ(acceptance.chance(0, 0.3, 2), 0.3);
  for (int n = 0; n < 100; ++n) count(acceptance, 2, true);
  EXPECT_GT(acceptance.chance(1, 0.3, 2), 0.85);
  EXPECT_LT(acceptance.chance(2, 0.3, 2), 0.1);
  for (int n = 0; n < 20; ++n) count(acceptance, 0, true);
  EXPECT_LT(acceptance.chance(0, 0.3, 2), 0.2);
  count(acceptance, 3, false);  // the proposal ended before a wrong token
  EXPECT_GT(acceptance.chance(2, 0, 0), 0.09);
}

TEST(StepCosts, AreTheMiddleOfWhatWasMeasuredAndALineBetween) {
  StepCosts costs;
  EXPECT_FALSE(costs.plain(1));
  // The machine was busy with another process during the second step.
  for (const double seconds : {1.0, 9.0, 1.0}) costs.add(1, 0, seconds, false);
  EXPECT_EQ(costs.plain(1), 1.0);
  EXPECT_FALSE(costs.plain(2));
  costs.add(1, 8, 5.0, false);
  EXPECT_DOUBLE_EQ(*costs.seconds(1, 4), 3.0);
  EXPECT_DOUBLE_EQ(*costs.seconds(1, 8), 5.0);
  EXPECT_GT(*costs.seconds(1, 16), 6.0);
  costs.add(1, 2, 0.5, false);  // but a step with more rows is never assumed to be faster
  EXPECT_DOUBLE_EQ(*costs.seconds(1, 2), 1.0);
}

TEST(StepCosts, DistinguishStepsOfDifferentSizes) {
  StepCosts costs;
  for (int num = 1; num <= 128; ++num)
    for (int n = 0; n < 7; ++n) costs.add(num, 0, num, false);
  for (int num = 1; num <= 128; ++num) {
    EXPECT_LE(*costs.plain(num), 1.125 * num) << num;
    EXPECT_GE(*costs.plain(num), num) << num;
  }
  // The cost of additional rows is stored apart from the cost of the plain step. So it also applies to other
  // numbers of sequences, and with a chain.
  costs.add(64, 8, *costs.plain(64) + 10, false);
  costs.add(64, 8, *costs.plain(64) + 15, true);
  EXPECT_DOUBLE_EQ(*costs.seconds(100, 8), *costs.plain(100) + 10);
  EXPECT_DOUBLE_EQ(*costs.seconds_with_chain(100, 8), *costs.plain(100) + 15);
  EXPECT_FALSE(costs.seconds_with_chain(100, 4));
}

// Simulates an engine with drafts, and one without for comparison. `chance(n)`: probability that a draft of
// the n-th token is right. With `chain_share` a draft head makes the drafts: each drafted token takes this
// share of a plain step's time, and can be checked in the next step. Otherwise every step offers `depth`
// drafts per sequence, and the controller chooses how many of them to verify.
struct Played {
  double seconds{0}, plain_seconds{0};
  int num_steps{0}, num_tokens{0};
};
Played play(const Cost& cost, int num_sequences, int num_tokens, int depth,
            const std::function<double(int)>& chance, bool is_disturbed = false,
            std::optional<double> chain_share = {}) {
  Controller controller(chain_share ? Chain::kHead : Chain::kNone);
  std::mt19937 random(7);
  Played played;
  // As in a speculator, acceptance is learned from all new tokens, drafted or not: for each sequence, and for
  // all sequences together.
  Acceptance of_all(0.995);
  std::vector<Acceptance> acceptance(static_cast<size_t>(num_sequences), Acceptance(0.8));
  while (played.num_tokens < num_tokens) {
    std::vector<DraftOffer> offers(static_cast<size_t>(num_sequences));
    for (size_t i = 0; i < offers.size(); ++i) {
      double all = 1;
      for (int place = 0; place < depth; ++place)
        offers[i].chances.push_back(all *= acceptance[i].chance(place, of_all.chance(place, 0.3, 2), 4));
    }
    controller.choose(num_sequences, 1000, offers);
    StepMeasure step{.num_sequences = num_sequences, .has_chain = controller.num_to_draft() > 0};
    for (size_t i = 0; i < offers.size(); ++i) {
      int num_right = 0;
      const auto is_right = [&] {
        return std::uniform_real_distribution<>(0, 1)(random) < chance(played.num_tokens / num_sequences);
      };
      while (num_right < depth && is_right()) ++num_right;
      count(acceptance[i], num_right, num_right < depth);
      count(of_all, num_right, num_right < depth);
      step.num_drafts += offers[i].num_taken;
      step.num_tokens += 1 + std::min(num_right, offers[i].num_taken);
    }
    step.num_more_rows = step.num_drafts;
    const double noise = std::uniform_real_distribution<>(0.97, 1.03)(random);
    double seconds = cost(num_sequences, step.num_more_rows);
    if (chain_share) {
      depth = controller.num_to_draft();
      seconds += depth * *chain_share * cost(num_sequences, 0);
    }
    step.seconds = noise * seconds;
    played.seconds += step.seconds;
    played.plain_seconds += cost(num_sequences, 0) * step.num_tokens / num_sequences;
    played.num_tokens += step.num_tokens;
    ++played.num_steps;
    if (is_disturbed && random() % 50 == 0) step.seconds *= 30;  // another program used the processor
    controller.add(step);
  }
  return played;
}

Played play_head(const Cost& cost, double chain_share, int num_sequences, int num_tokens,
                 const std::function<double(int)>& chance) {
  return play(cost, num_sequences, num_tokens, 0, chance, false, chain_share);
}

TEST(Controller, WithAHeadNeverLosesMoreThanAFiftiethEither) {
  for (const Cost& cost : {kByRows, kByBytes, kFree})
    for (const double chain_share : {0.03, 0.1, 0.4})
      for (const int num_sequences : {1, 4, 16})
        for (int tenths = 0; tenths <= 10; ++tenths) {
          const Played played = play_head(cost, chain_share, num_sequences, 2000 * num_sequences,
                                          [&](int) { return tenths / 10.0; });
          EXPECT_LT(played.seconds, 1.02 * played.plain_seconds)
              << "chance " << tenths << "/10, " << num_sequences << " sequences, a draft at " << chain_share;
        }
}

TEST(Controller, TurnsAHeadOnWhereItPays) {
  // With a probability of 0.9 at every position, a draft that takes 0.05 of a step and a row that takes 0.37,
  // the best fixed depth is 4: 4.1 tokens in 1 + 4 (0.37 + 0.05) steps, a gain of 1.53.
  const Played likely = play_head(kByBytes, 0.05, 1, 8000, [](int) { return 0.9; });
  EXPECT_LT(likely.seconds, likely.plain_seconds / 1.35);
  const Played free = play_head(kFree, 0.03, 1, 8000, [](int) { return 0.95; });
  EXPECT_LT(free.seconds, free.plain_seconds / 3);
  // 16 sequences, probability 0.8: four drafts per sequence give 3.4 tokens in 1.67 plain steps.
  const Played many = play_head(kFree, 0.03, 16, 32000, [](int) { return 0.8; });
  EXPECT_LT(many.seconds, many.plain_seconds / 1.8);
}

TEST(Controller, TurnsAHeadOffWhenItsDraftsGoWrongAndOnWhenTheyAreRightAgain) {
  const auto turn = [](int token) { return token / 2000 % 2 == 0 ? 0.9 : 0.05; };
  const Played played = play_head(kByBytes, 0.05, 1, 16000, turn);
  EXPECT_LT(played.seconds, 0.92 * played.plain_seconds);
}

TEST(Controller, NeverLosesMoreThanAFiftiethWhateverTheDraftsAndTheCosts) {
  for (const Cost& cost : {kByRows, kByBytes, kFree}) {
    for (const int num_sequences : {1, 4, 16}) {
      for (int tenths = 0; tenths <= 10; ++tenths) {
        const Played played =
            play(cost, num_sequences, 2000 * num_sequences, 12, [&](int) { return tenths / 10.0; });
        EXPECT_LT(played.seconds, 1.02 * played.plain_seconds)
            << "chance " << tenths << "/10, " << num_sequences << " sequences";
      }
    }
  }
}

TEST(Controller, LosesNothingToDraftsThatAreRightUntilTheyAreBelieved) {
  for (const Cost& cost : {kByRows, kByBytes, kFree}) {
    const Played played = play(cost, 1, 8000, 16, [](int token) { return token / 200 % 2 == 0 ? 1.0 : 0.0; });
    EXPECT_LT(played.seconds, 1.02 * played.plain_seconds);
  }
}

TEST(Controller, GainsWhereDraftsAreGoodAndRowsCheap) {
  const Played certain = play(kFree, 1, 4000, 12, [](int) { return 1.0; });
  EXPECT_LT(certain.seconds, certain.plain_seconds / 6);
  const Played likely = play(kByBytes, 1, 4000, 12, [](int) { return 0.9; });
  EXPECT_LT(likely.seconds, 0.8 * likely.plain_seconds);
  // At best drafts give 1.7 tokens in 1.37 steps, by the formula of https://arxiv.org/abs/2211.17192.
  const Played fair = play(kByBytes, 1, 4000, 12, [](int) { return 0.7; });
  EXPECT_LT(fair.seconds, 0.9 * fair.plain_seconds);
}

TEST(Controller, ComesNearTheBestFixedNumberOfDraftsForAnyProbability) {
  int num_cost = 0;
  for (const Cost& cost : {kByRows, kByBytes, kByExperts, kFree}) {
    ++num_cost;
    for (const int num_sequences : {1, 16, 64})
      for (int tenths = 0; tenths <= 10; ++tenths) {
        const double chance = tenths / 10.0;
        double best = 0;  // expected tokens per second
        for (const int depth : {0, 1, 3, 5}) {
          double tokens = 0;
          for (int n = 0; n <= depth; ++n) tokens += std::pow(chance, n);
          best = std::max(best, num_sequences * tokens / cost(num_sequences, num_sequences * depth));
        }
        const auto play_tokens = [&](int num_tokens) {
          return play(cost, num_sequences, num_tokens * num_sequences, 16, [&](int) { return chance; });
        };
        // Leaves out the first tokens, in which the controller learns; the longer run begins with them too.
        const Played first = play_tokens(200), all = play_tokens(num_sequences == 1 ? 2000 : 400);
        const double speed = (all.num_tokens - first.num_tokens) / (all.seconds - first.seconds);
        // Random draws make this up to 2 % less than the expectation.
        EXPECT_GT(speed, 0.96 * best)
            << "cost " << num_cost << ", chance " << tenths << "/10, " << num_sequences << " sequences";
      }
  }
}

TEST(Controller, DoesNotGiveUpGoodDraftsAfterTheFirstWrongOnes) {
  const Played likely = play(kByBytes, 1, 128, 8, [](int) { return 0.7; });
  EXPECT_LT(likely.seconds, likely.plain_seconds / 1.15);
}

TEST(Controller, StepsThatSomethingElseMadeSlowDoNotDecide) {
  const Played good = play(
      kByBytes, 1, 4000, 12, [](int) { return 0.9; }, true);
  EXPECT_LT(good.seconds, 0.8 * good.plain_seconds);
  const Played bad = play(
      kByRows, 1, 4000, 12, [](int) { return 0.5; }, true);
  EXPECT_LT(bad.seconds, 1.02 * bad.plain_seconds);
}

TEST(Controller, TakesTheLikeliestDraftsOfAllSequences) {
  Controller controller;
  for (int n = 0; n < 3; ++n) controller.add({.num_sequences = 2, .num_tokens = 2, .seconds = 1});
  std::vector<DraftOffer> offers{{.chances = {0.99, 0.98, 0.97, 0.1}}, {.chances = {0.05, 0.04}}};
  controller.choose(2, 100, offers);
  EXPECT_EQ(offers[0].num_taken, 3);
  EXPECT_EQ(offers[1].num_taken, 0);
  controller.choose(2, 2, offers);
  EXPECT_EQ(offers[0].num_taken, 2) << "two rows are left";
}

TEST(Controller, DraftsNothingBeforeItKnowsWhatAPlainStepCosts) {
  Controller controller;
  std::vector<DraftOffer> offers{{.chances = {1, 1, 1}}};
  controller.choose(1, 100, offers);
  EXPECT_EQ(offers[0].num_taken, 0);
}

TEST(Controller, FindsOutWhenCostsHaveFallen) {
  Controller controller;
  std::vector<DraftOffer> offers{{.chances = std::vector<double>(8, 1.0)}};
  const auto run = [&](const Cost& cost, int num_steps) {
    int num_drafts = 0;
    for (int n = 0; n < num_steps; ++n) {
      controller.choose(1, 100, offers);
      const int taken = offers[0].num_taken;
      controller.add({.num_sequences = 1,
                      .num_more_rows = taken,
                      .num_drafts = taken,
                      .num_tokens = 1 + taken,
                      .seconds = cost(1, taken)});
      num_drafts += taken;
    }
    return num_drafts;
  };
  const Cost dear = [](int n, int more) { return 0.001 * (n + 2 * more); };
  run(dear, 1000);
  EXPECT_LT(run(dear, 1000), 100);
  EXPECT_GT(run(kFree, 2000), 8000);
}

// ---- the speculator: choosing the drafter ----

// A drafter that always proposes the same token.
struct Fixed final : Drafter {
  explicit Fixed(TokenId given) : token(given) {}
  void push(std::span<const TokenId>) override {}
  Proposal propose(int most) override {
    return {.tokens = std::vector<TokenId>(static_cast<size_t>(most), token)};
  }
  TokenId token;
};

TEST(Speculator, BelievesTheDrafterThatWasRight) {
  const auto always = [](TokenId token) {
    return [=](const DrafterSources&) { return std::make_unique<Fixed>(token); };
  };
  Speculator speculator({.drafters = {always(1), always(2)}, .max_drafts = 4});
  const auto track = speculator.start(std::vector<TokenId>{5}, nullptr);
  std::vector<Speculator::Choice> drafts{{.track = track.get(), .most = 8}};
  for (int n = 0; n < 40; ++n) {
    speculator.choose(1, 1, 100, drafts);
    for (int token = 0; token <= std::ssize(drafts[0].tokens); ++token) speculator.push(*track, 2);
    const auto taken = static_cast<int>(drafts[0].tokens.size());
    speculator.add({.num_sequences = 1,
                    .num_more_rows = taken,
                    .num_drafts = taken,
                    .num_tokens = 1 + taken,
                    .seconds = kFree(1, taken)});
  }
  EXPECT_EQ(drafts[0].tokens, std::vector<TokenId>(4, 2));
  EXPECT_TRUE(speculator.is_drafting());
}

TEST(Speculator, SetToDraftAlwaysTakesAllThatIsProposed) {
  Speculator speculator({.drafters = {[](const DrafterSources&) { return std::make_unique<Fixed>(3); }},
                         .by_cost = false,
                         .max_drafts = 5});
  const auto track = speculator.start({}, nullptr);
  std::vector<Speculator::Choice> drafts{{.track = track.get(), .most = 8}};
  speculator.choose(1, 1, 100, drafts);
  EXPECT_EQ(drafts[0].tokens.size(), 5u);
}

// Proposes a tree. The tokens 1 and 2 may follow the text, the draft 1, the draft 2, and the drafts 1, 1.
struct Branching final : Drafter {
  void push(std::span<const TokenId>) override {}
  Proposal propose(int most) override {
    Proposal all{.tokens = {1, 2, 1, 2, 1, 2, 1, 2}, .parents = {-1, -1, 0, 0, 1, 1, 2, 2}};
    all.tokens.resize(std::min(all.tokens.size(), static_cast<size_t>(most)));
    all.parents.resize(all.tokens.size());
    return all;
  }
};

// Returns what the speculator chooses if steps cost `cost`, after an answer in which six of ten tokens were
// the token 1, and most others the token 2.
Speculator::Choice choice_of_branches(const Cost& cost) {
  Speculator speculator(
      {.drafters = {[](const DrafterSources&) { return std::make_unique<Branching>(); }}, .topk = 2});
  const auto track = speculator.start(std::vector<TokenId>{5}, nullptr);
  std::vector<Speculator::Choice> choice{{.track = track.get(), .most = 8}};
  std::mt19937 random(1);
  for (int n = 0; n < 400; ++n) {
    choice[0].tokens.clear();
    speculator.choose(1, 1, 100, choice);
    const auto taken = static_cast<int>(choice[0].tokens.size());
    for (int token = 0; token < 2; ++token) {
      const auto drawn = random() % 20;
      speculator.push(*track, drawn < 12 ? 1 : drawn < 19 ? 2 : 3);
    }
    speculator.add({.num_sequences = 1,
                    .num_more_rows = taken,
                    .num_drafts = taken,
                    .num_tokens = 2,
                    .seconds = cost(1, taken)});
  }
  for (int n = 0; choice[0].tokens.empty() && n < 20; ++n) speculator.choose(1, 1, 100, choice);
  return choice[0];
}

TEST(Speculator, DraftsATreeOnlyWhereItGainsMoreThanAChain) {
  const Speculator::Choice chain = choice_of_branches(kByBytes), tree = choice_of_branches(kFree);
  EXPECT_EQ(chain.tokens, std::vector<TokenId>(chain.tokens.size(), 1));
  EXPECT_GE(chain.tokens.size(), 1u);
  EXPECT_LE(chain.tokens.size(), 2u);
  for (size_t i = 0; i < chain.parents.size(); ++i) EXPECT_EQ(chain.parents[i], static_cast<int>(i) - 1);
  // The tree has 1, then 1 after it (probability 0.36), 2 instead of the first 1 (0.35), and 2 after the
  // first 1 (0.21). Each draft gains more than a row costs.
  EXPECT_GE(tree.tokens.size(), 4u);
  EXPECT_EQ(std::count(tree.parents.begin(), tree.parents.end(), -1), 2);
  EXPECT_EQ(std::count(tree.parents.begin(), tree.parents.end(), 0), 2);
}

}  // namespace
}  // namespace nibble::speculative
