// Tests the reports of requests that wait for their first token.
#include <gtest/gtest.h>

#include <vector>

#include "tests/engine/toy_engine.h"

namespace nibble {
namespace {

class EngineReports : public EngineAnswers {};

GenerationRequest reporting(const std::string& text, int max_tokens) {
  GenerationRequest asked = request(tokens_of(text), max_tokens);
  asked.reports_prompt = true;
  return asked;
}

TEST_P(EngineReports, TellHowMuchOfThePromptHasRun) {
  EngineOptions small = options();
  small.max_batch_tokens = 16;
  Toy toy(toy_logits, small);
  const std::string text(40, 'x');
  const Tokens prompt = tokens_of(text);
  ASSERT_GT(prompt.size(), 16u) << "one step runs the whole prompt";
  const Answer told = toy.answers.wait_for(toy.engine.submit(reporting(text, 3)));
  ASSERT_GE(told.reports.size(), 2u);
  EXPECT_EQ(told.reports.front().num_done_tokens, 0);
  EXPECT_EQ(told.reports.at(1).num_done_tokens, 16);
  for (size_t i = 0; i < told.reports.size(); ++i) {
    EXPECT_EQ(told.reports[i].place, 0);
    EXPECT_EQ(told.reports[i].num_prompt_tokens, static_cast<int>(prompt.size()));
    EXPECT_LT(told.reports[i].num_done_tokens, told.reports[i].num_prompt_tokens);
    const int before = i == 0 ? -1 : told.reports[i - 1].num_done_tokens;
    EXPECT_GT(told.reports[i].num_done_tokens, before);
  }
  const Answer untold = toy.answers.wait_for(toy.engine.submit(request(prompt, 3)));
  EXPECT_TRUE(untold.reports.empty());
  EXPECT_EQ(untold.tokens, told.tokens);
}

TEST_P(EngineReports, CountCachedTokensAsDone) {
  Toy toy(toy_logits, options());
  const std::string text(300, 'y');
  toy.answers.wait_for(toy.engine.submit(request(tokens_of(text), 2)));
  const Answer told = toy.answers.wait_for(toy.engine.submit(reporting(text, 2)));
  ASSERT_FALSE(told.reports.empty());
  EXPECT_GT(told.reports.front().num_cached_tokens, 0);
  EXPECT_EQ(told.reports.front().num_done_tokens, told.reports.front().num_cached_tokens);
}

// Runs only without drafts (kWithoutDrafts): the first answer then takes a step per token, so that the other
// requests wait in the queue for many steps.
class EngineQueue : public EngineAnswers {};

TEST_P(EngineQueue, TellsThePlaceOfEachRequestWhenItChanges) {
  Gate gate;
  EngineOptions one_at_a_time = options();
  one_at_a_time.max_sequences = 1;
  Toy toy(gate.model(), one_at_a_time);
  const RequestId first = toy.engine.submit(request(tokens_of("first"), 20));
  gate.arrived.acquire();
  const RequestId second = toy.engine.submit(reporting("second", 2));
  const RequestId third = toy.engine.submit(reporting("third", 2));
  gate.passed.release(1000);
  toy.answers.wait_for(first);
  toy.answers.wait_for(second);
  const auto places = [&](RequestId id) {
    std::vector<int> seen;
    for (const PromptEvent& report : toy.answers[id].reports) seen.push_back(report.place);
    return seen;
  };
  toy.answers.wait_for(third);
  EXPECT_EQ(places(second), (std::vector<int>{1, 0}));
  EXPECT_EQ(places(third), (std::vector<int>{2, 1, 0}));
}

INSTANTIATE_TEST_SUITE_P(AllWays, EngineReports, testing::ValuesIn(kAllWays));
INSTANTIATE_TEST_SUITE_P(WithoutDrafts, EngineQueue, testing::ValuesIn(kWithoutDrafts));

}  // namespace
}  // namespace nibble
