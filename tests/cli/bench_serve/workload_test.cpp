#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "cli/bench_serve/conversation.h"
#include "cli/bench_serve/workload.h"
#include "tests/error_of.h"

namespace nibble::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

Workload workload_of(BenchApi api) {
  return {.api = api,
          .model = "m",
          .prompt_tokens = read_length("5-20", ""),
          .output_tokens = read_length("3", ""),
          .num_prefix_tokens = 4,
          .num_prefixes = 3,
          .vocab_size = 2000,
          .seed = 1};
}

nlohmann::ordered_json request_body(const Workload& workload, uint64_t index) {
  return BenchConversation(workload, index).next_body();
}

TEST(Workload, PromptsShareTheirPrefixesAndNothingElse) {
  const Workload workload = workload_of(BenchApi::kCompletions);
  std::set<std::vector<int>> prefixes, own;
  std::set<size_t> lengths;
  for (uint64_t i = 0; i < 300; ++i) {
    const std::vector<int> ids = request_body(workload, i)["prompt"];
    ASSERT_TRUE(std::all_of(ids.begin(), ids.end(), [](int id) { return id >= 0 && id < 2000; }));
    lengths.insert(ids.size());
    prefixes.emplace(ids.begin(), ids.begin() + 4);
    own.emplace(ids.begin() + 4, ids.end());
  }
  EXPECT_EQ(prefixes.size(), 3u);
  EXPECT_EQ(own.size(), 300u);
  EXPECT_EQ(*lengths.begin(), 4u + 5);
  EXPECT_EQ(*lengths.rbegin(), 4u + 20);
}

TEST(Workload, ARequestFollowsFromTheSeed) {
  Workload workload = workload_of(BenchApi::kChat);
  const auto body = request_body(workload, 7);
  EXPECT_EQ(body, request_body(workload, 7));
  EXPECT_NE(body, request_body(workload, 8));
  workload.seed = 2;
  EXPECT_NE(body, request_body(workload, 7));
  const std::string text = body["messages"][0]["content"];
  EXPECT_THAT(text, Not(HasSubstr("  ")));
  EXPECT_EQ(body["max_tokens"], 3);
  EXPECT_EQ(body["stream"], true);
  EXPECT_EQ(body["stream_options"]["include_usage"], true);
}

TEST(Workload, ExtraFieldsAreAddedOrReplaceItsOwn) {
  Workload workload = workload_of(BenchApi::kCompletions);
  auto expected = request_body(workload, 3);
  workload.extra_body = {{"regex", "[a-z]+"}, {"ignore_eos", false}};
  expected["regex"] = "[a-z]+";
  expected["ignore_eos"] = false;
  EXPECT_EQ(request_body(workload, 3), expected);
}

TEST(Workload, ArrivalsAreAPoissonProcess) {
  constexpr int kCount{10000};
  const std::vector<double> times = poisson_arrivals(4, kCount, 3);
  ASSERT_EQ(times.size(), size_t{kCount});
  EXPECT_EQ(times[0], 0);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  // Gaps have a mean and a standard deviation of 1/4, so the mean of 10^4 gaps deviates by 1/400.
  EXPECT_NEAR(times.back() / (kCount - 1), 0.25, 5 * 0.0025);
  int num_long = 0;
  for (size_t i = 1; i < times.size(); ++i) num_long += times[i] - times[i - 1] > 0.25;
  // Gaps longer than the mean are a share of exp(-1): their number is binomial, with a standard deviation of
  // 48.
  EXPECT_NEAR(num_long, kCount * std::exp(-1.0), 5 * 48);
}

TEST(Workload, IdsCoverTheVocabulary) {
  Workload workload = workload_of(BenchApi::kCompletions);
  workload.prompt_tokens = read_length("20000", "");
  const std::vector<int> ids = request_body(workload, 0)["prompt"];
  // With 10 draws per id on average, an id is missed with a probability of e^-10: 0.09 of 2,000 ids.
  EXPECT_GE(std::set<int>(ids.begin(), ids.end()).size(), 1995u);
}

TEST(Workload, EqualBlocksOfATraceAreEqualWithinOnePass) {
  Workload workload = workload_of(BenchApi::kCompletions);
  workload.num_prefix_tokens = 0;
  workload.trace = {{.num_prompt_tokens = 700, .num_output_tokens = 5, .blocks = {1, 2}},
                    {.num_prompt_tokens = 1100, .num_output_tokens = 6, .blocks = {1, 3}}};
  std::vector<std::vector<int>> prompts;
  for (uint64_t i = 0; i < 4; ++i) {
    const auto body = request_body(workload, i);
    EXPECT_EQ(body["max_tokens"], i % 2 == 0 ? 5 : 6);
    prompts.push_back(body["prompt"]);
    EXPECT_THAT(prompts.back(), SizeIs(i % 2 == 0 ? 700 : 1100));
  }
  const auto begins_like = [&](size_t a, size_t b, size_t count) {
    return std::equal(prompts[a].begin(), prompts[a].begin() + static_cast<ptrdiff_t>(count),
                      prompts[b].begin());
  };
  EXPECT_TRUE(begins_like(0, 1, 512));   // the first 512 tokens of both prompts are block 1
  EXPECT_FALSE(begins_like(0, 1, 600));  // the tokens after block 1 are blocks 2 and 3, which differ
  // prompt 2 is from the second pass through the trace, which uses other ids
  EXPECT_FALSE(begins_like(0, 2, 1));
}

// conversations

TEST(Conversation, ACompletionRepeatsTheAnswersIds) {
  Workload workload = workload_of(BenchApi::kCompletions);
  workload.num_turns = 3;
  BenchConversation conversation(workload, 0);
  const auto first = conversation.next_body();
  EXPECT_EQ(first["return_token_ids"], true);
  conversation.add_answer({"", {7, 8, 9}});
  const std::vector<int> before = first["prompt"], after = conversation.next_body()["prompt"];
  const auto end = static_cast<ptrdiff_t>(before.size());
  ASSERT_GE(after.size(), before.size() + 3 + 5);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
  EXPECT_THAT(std::vector(after.begin() + end, after.begin() + end + 3), ElementsAre(7, 8, 9));
  conversation.add_answer({"", {1}});
  ASSERT_TRUE(conversation.has_next());
  EXPECT_FALSE(conversation.next_body().contains("return_token_ids"));  // this is the last turn
  EXPECT_FALSE(conversation.has_next());
}

TEST(Conversation, AChatRepeatsTheAnswersText) {
  Workload workload = workload_of(BenchApi::kChat);
  workload.num_turns = 2;
  BenchConversation conversation(workload, 0);
  conversation.next_body();
  conversation.add_answer({"yes", {}});
  const auto messages = conversation.next_body()["messages"];
  ASSERT_THAT(messages, SizeIs(3));
  EXPECT_EQ(messages[1], (nlohmann::ordered_json{{"role", "assistant"}, {"content", "yes"}}));
  EXPECT_EQ(messages[2]["role"], "user");
  EXPECT_NE(messages[2], messages[0]);
}

TEST(Conversation, ACompletionNeedsTheAnswersIds) {
  Workload workload = workload_of(BenchApi::kCompletions);
  workload.num_turns = 2;
  BenchConversation conversation(workload, 0);
  conversation.next_body();
  EXPECT_THAT(error_of([&] { conversation.add_answer({"text", {}}); }), HasSubstr("use --api chat"));
}

}  // namespace
}  // namespace nibble::cli
