// Tests of the backend contract, which every backend instantiates. BackendBits: the bits of a token do not
// depend on what else is in the step. BackendOutputs: a step returns the requested outputs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backend/sample.h"
#include "tests/backend/fulfilment.h"
#include "tests/ops/shapes.h"

namespace nibble {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BackendBits);

TEST_P(BackendBits, AreThoseOfTheSequenceAloneHoweverManyShareTheStep) {
  for (const int num_sequences : shapes::kNumSequences) {
    std::vector<std::vector<TokenId>> prompts;
    std::vector<Feeder::Part> parts;
    for (int s = 0; s < num_sequences; ++s) prompts.push_back(ids(1 + 31 * s % 100, s));
    for (int s = 0; s < num_sequences; ++s) parts.push_back({s, prompts[s]});
    Feeder together = feeder();
    together.feed(parts);
    for (int s = 0; s < num_sequences; ++s)
      ASSERT_EQ(together.logits(s), logits_alone(prompts[s])) << "sequence " << s << " of " << num_sequences;
  }
}

TEST_P(BackendBits, AreTheSameHoweverAPromptIsCutIntoChunks) {
  const std::vector<TokenId> prompt = ids(230, 6);
  const std::vector<float> whole = logits_alone(prompt);
  for (const size_t chunk : {1, 7, 32, 129}) {
    Feeder chunked = feeder();
    chunked.feed_in_chunks(0, prompt, chunk);
    EXPECT_EQ(chunked.logits(0), whole) << chunk;
  }
}

TEST_P(BackendBits, AreTheSameForDecodeRowsAmongChunksOfAPrompt) {
  const std::vector<TokenId> chat = ids(60, 7), other_chat = ids(90, 8), prompt = ids(200, 9);
  Feeder mixed = feeder();
  mixed.feed({{0, std::span(chat).first(50)}, {1, std::span(other_chat).first(80)}});
  for (size_t i = 0; i < 10; ++i)
    mixed.feed({{1, std::span(other_chat).subspan(80 + i, 1)},
                {2, std::span(prompt).subspan(20 * i, 20)},
                {0, std::span(chat).subspan(50 + i, 1)}});
  EXPECT_EQ(mixed.logits(0), logits_alone(chat));
  EXPECT_EQ(mixed.logits(1), logits_alone(other_chat));
  EXPECT_EQ(mixed.logits(2), logits_alone(prompt));
}

// The right drafts come last in the tree, after wrong drafts for the same positions that have wrong children
// of their own. Ends of pages and windows lie before, inside and after the tree.
TEST_P(BackendBits, AreTheSameInATreeOfDraftsAndAfterIt) {
  if (!feeder().takes_trees()) GTEST_SKIP() << "drafts are chains here";
  const auto wrong = [](TokenId token) { return token == 0 ? 1 : token - 1; };
  struct Case {
    int length;
    size_t num_known;
  };
  for (const auto [length, num_known] : {Case{14, 1}, Case{26, 3}, Case{97, 1}}) {
    SCOPED_TRACE(length);
    const std::vector<TokenId> other = ids(40, 71);
    std::vector<TokenId> text = ids(length, 70);
    Feeder plain = feeder(), drafted = feeder();
    plain.feed({{0, text}});
    for (int n = 0; n < 9; ++n) {
      text.push_back(plain.likeliest_next(0));
      plain.feed({{0, std::span(text).last(1)}});
    }
    const auto all = std::span<const TokenId>(text);
    const auto prompt = all.first(static_cast<size_t>(length)), known = all.subspan(prompt.size(), num_known);
    const auto g = all.subspan(prompt.size() + num_known);
    const std::vector<TokenId> drafts{wrong(g[0]), wrong(g[0]), g[0], wrong(g[1]),
                                      wrong(g[2]), g[1],        g[2], wrong(g[3])};
    const std::vector<int> parents{-1, 0, -1, 2, 3, 2, 5, 6};
    drafted.feed({{0, prompt}, {1, std::span(other).first(20)}});
    std::vector<int> kept;
    const auto logits = drafted.feed_tree({0, known}, drafts, parents, {1, std::span(other).last(20)}, kept);
    EXPECT_EQ(kept, (std::vector<int>{2, 5, 6}));
    for (size_t draft = 0; draft < drafts.size(); ++draft) {
      std::vector<TokenId> path;
      for (int at = static_cast<int>(draft); at >= 0; at = parents[static_cast<size_t>(at)])
        path.insert(path.begin(), drafts[static_cast<size_t>(at)]);
      path.insert(path.begin(), text.begin(), text.begin() + std::ssize(prompt) + std::ssize(known));
      const std::vector<float> alone = logits_alone(path);
      EXPECT_TRUE(std::equal(logits[draft].rbegin(), logits[draft].rend(), alone.rbegin())) << draft;
    }
    drafted.feed({{0, g.subspan(3)}});
    EXPECT_EQ(drafted.logits(0), plain.logits(0));
    EXPECT_EQ(drafted.logits(1), logits_alone(other));
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BackendOutputs);

TEST_P(BackendOutputs, AreTheRequestedOnesInTheirOrder) {
  const int vocab = weights->config.vocab;
  const std::vector<TokenId> ids = random_ids(40, vocab, 10);
  const SampleParams greedy{.logit_bias = {}, .num_logprobs = 2};
  std::vector<OutputRow> outputs;
  // The step has more output rows than a backend computes at once. Every third output row is not sampled.
  for (int t = 0; t < 40; ++t)
    outputs.push_back(
        {.token_index = t, .sample = t % 3 == 2 ? nullptr : &greedy, .prompt = {}, .output = {}});
  const StepResult result = run(ids, outputs, true);
  ASSERT_EQ(result.outputs.size(), 40u);
  ASSERT_EQ(result.logits.size(), size_t{40} * vocab);
  for (int t = 0; t < 40; ++t) {
    const auto first = result.logits.begin() + t * vocab;
    const auto likeliest = std::max_element(first, first + vocab) - first;
    EXPECT_EQ(result.outputs[t].token, t % 3 == 2 ? -1 : likeliest) << t;
    ASSERT_EQ(result.outputs[t].top.size(), t % 3 == 2 ? 0u : 2u) << t;
    if (!result.outputs[t].top.empty()) {
      EXPECT_EQ(result.outputs[t].top[0].token, likeliest) << t;
    }
  }
  const StepResult without_logits = run(ids, {outputs[39]}, false);
  EXPECT_TRUE(without_logits.logits.empty());
  EXPECT_EQ(without_logits.outputs[0].token, result.outputs[39].token);
}

// The draw depends only on the seed and on the position of the drawn token.
TEST_P(BackendOutputs, AreDrawnForThePositionAfterTheRow) {
  const std::vector<TokenId> ids = random_ids(40, weights->config.vocab, 11);
  // The temperature is so high that two positions rarely draw the same token.
  const SampleParams flat{.temperature = 100, .logit_bias = {}, .seed = 5};
  const std::vector<OutputRow> outputs{{.token_index = 39, .sample = &flat, .prompt = {}, .output = {}}};
  const StepResult result = run(ids, outputs, true);
  std::vector<float> scratch = result.logits;
  EXPECT_EQ(result.outputs[0].token, sample(scratch, outputs[0], 40).token);
  scratch = result.logits;
  EXPECT_NE(result.outputs[0].token, sample(scratch, outputs[0], 39).token);
}

struct OneToken : TokenMask {
  explicit OneToken(TokenId allowed) : token(allowed) {}
  void fill(std::span<uint32_t> words) override {
    std::fill(words.begin(), words.end(), 0u);
    words[static_cast<size_t>(token) / 32] = 1u << token % 32;
  }
  TokenId token;
};

// Drafts A and B follow the known token, C follows B, and D follows C. The masks allow B after the known
// token, C after B, and D after C. In the second step B has no output row, because only C can follow it.
TEST_P(BackendOutputs, DecideByTheirMasksWhichDraftsOfATreeAreRight) {
  if (!backend_->takes_trees()) GTEST_SKIP() << "drafts are chains here";
  const std::vector<TokenId> text = random_ids(45, weights->config.vocab, 12);
  const TokenId a = text[0], b = text[41], c = text[42], d = text[43];
  ASSERT_NE(a, b);
  const std::vector<PageId> full{PageId{0}, PageId{1}}, sliding{PageId{2}, PageId{3}};  // the pages of run()
  const SampleParams greedy;
  const OutputRow last{.token_index = 0};
  const auto logits_behind = [&] {
    const nibble::Run run{std::span(text).subspan(44, 1), 44, {full}, {sliding}, {&last, 1}};
    return backend_->step({.runs = {&run, 1}, .want_logits = true}).logits;
  };
  run(std::vector<TokenId>(text.begin(), text.begin() + 44), {}, false);
  const std::vector<float> plain = logits_behind();
  for (const bool has_row_of_b : {true, false}) {
    run(std::vector<TokenId>(text.begin(), text.begin() + 40), {}, false);
    const std::vector<TokenId> tokens{text[40], a, b, c, d};
    const std::vector<int> parents{-1, 0, 0, 2, 3};
    OneToken only_b(b), only_c(c), only_d(d);
    std::vector<OutputRow> outputs{{.token_index = 0, .sample = &greedy, .mask = &only_b},
                                   {.token_index = 1, .sample = &greedy}};
    if (has_row_of_b) outputs.push_back({.token_index = 2, .sample = &greedy, .mask = &only_c});
    outputs.push_back({.token_index = 3, .sample = &greedy, .mask = &only_d});
    outputs.push_back({.token_index = 4, .sample = &greedy});
    const nibble::Run tree{.tokens = tokens,
                           .first_position = 40,
                           .full = {full},
                           .sliding = {sliding},
                           .outputs = outputs,
                           .drafted = {.count = 4, .parents = parents}};
    const StepResult result = backend_->step({.runs = {&tree, 1}});
    ASSERT_EQ(result.outputs.size(), outputs.size());
    EXPECT_EQ(result.outputs[0].token, b);
    EXPECT_EQ(result.kept, (std::vector<std::vector<int>>{{2, 3, 4}}));
    EXPECT_EQ(logits_behind(), plain);
  }
}

TEST_P(BackendOutputs, OfAnEmptyBatchAreNone) {
  const StepResult result = backend_->step({});
  EXPECT_TRUE(result.outputs.empty());
  EXPECT_TRUE(result.logits.empty());
}

}  // namespace nibble
