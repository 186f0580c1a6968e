// Tests the draft model on the toy model, which reads its input through the page tables. Each draft must be
// the likeliest token after the whole text and the drafts before it.
#include "speculative/model.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "tests/engine/toy_backend.h"
#include "tests/engine/toy_drafter.h"
#include "tests/engine/toy_engine.h"

namespace nibble::speculative {
namespace {

using Text = std::vector<TokenId>;

// A draft model with its pages, and the texts that it drafts for.
class DraftingToy {
 public:
  struct Room {
    int num_pages{128}, max_batch_tokens{40};
  };
  explicit DraftingToy(Room room) : DraftingToy(room, toy_logits) {}
  DraftingToy(Room room, ToyModel toy)
      : next_(likeliest(toy)),
        backend_(std::make_shared<ToyBackend>(
            EngineOptions{.num_pages = room.num_pages, .max_batch_tokens = room.max_batch_tokens},
            std::move(toy))),
        model_({backend_, room.num_pages, room.max_batch_tokens}) {}

  size_t add(const Text& prompt, std::string_view salt = {}) {
    texts_.push_back(prompt);
    drafters_.push_back(std::make_unique<ModelDrafter>(model_, salt));
    drafters_.back()->push(prompt);
    return texts_.size() - 1;
  }
  void push(size_t text, TokenId token) {
    texts_[text].push_back(token);
    drafters_[text]->push({&token, 1});
  }
  // Runs one round of drafting for all texts.
  DraftModel::CatchUp run(int num_drafts) {
    for (const auto& drafter : drafters_)
      if (drafter) drafter->want(num_drafts);
    return model_.run();
  }
  Text proposed(size_t text) { return drafters_[text]->propose(16).tokens; }
  Text right(size_t text, int num) const {
    Text context = texts_[text];
    for (int n = 0; n < num; ++n) context.push_back(next_(context));
    return {context.end() - num, context.end()};
  }
  void end(size_t text) { drafters_[text].reset(); }
  int num_steps() const { return backend_->num_steps(); }

 private:
  NextToken next_;
  std::vector<Text> texts_;
  std::shared_ptr<ToyBackend> backend_;
  DraftModel model_;
  std::vector<std::unique_ptr<ModelDrafter>> drafters_;
};

Text some_text(size_t num_tokens, unsigned seed) {
  std::mt19937 random(seed);
  Text text(num_tokens);
  for (TokenId& token : text) token = static_cast<TokenId>(random() % 256);
  return text;
}

TEST(DraftModel, DraftsTheLikeliestTokensHoweverTheTextGoesOn) {
  DraftingToy toy({});
  for (unsigned n = 0; n < 4; ++n) toy.add(some_text(5 + 9 * n, n));
  // Together the prompts are longer than a step, so they need two rounds.
  for (int n = 0; n < 2; ++n) toy.run(3);
  for (size_t text = 0; text < 4; ++text) toy.push(text, 5);
  std::mt19937 random(5);
  for (int round = 0; round < 80; ++round) {
    const int num_drafts = 1 + static_cast<int>(random() % 6);
    toy.run(num_drafts);
    for (size_t text = 0; text < 4; ++text) {
      const Text drafts = toy.proposed(text);
      ASSERT_EQ(drafts, toy.right(text, num_drafts)) << "round " << round;
      // The text continues with some of the drafts, then with another token.
      const size_t num_right = random() % (drafts.size() + 1);
      for (size_t n = 0; n < num_right; ++n) toy.push(text, drafts[n]);
      toy.push(text, static_cast<TokenId>(random() % 256));
      EXPECT_TRUE(toy.proposed(text).empty());  // the drafts made earlier do not follow this text
    }
  }
}

TEST(DraftModel, CatchesUpInBoundedStepsWithWhatItHasNotRead) {
  DraftingToy toy({.num_pages = 60, .max_batch_tokens = 40});
  const size_t longer = toy.add(some_text(150, 1)), shorter = toy.add(some_text(20, 2));
  const DraftModel::CatchUp of_prompts = toy.run(2);
  EXPECT_GT(of_prompts.prompt_seconds, 0);
  EXPECT_EQ(of_prompts.answer_seconds, 0);
  // The shorter text gets drafts before the longer one's prompt is complete.
  EXPECT_EQ(toy.proposed(shorter), toy.right(shorter, 2));
  EXPECT_TRUE(toy.proposed(longer).empty());
  for (int n = 0; n < 4; ++n) toy.run(2);
  EXPECT_EQ(toy.proposed(longer), toy.right(longer, 2));
  for (int n = 0; n < 30; ++n) toy.push(longer, 7);  // no drafts requested meanwhile
  const DraftModel::CatchUp of_answer = toy.run(2);
  EXPECT_EQ(of_answer.prompt_seconds, 0);
  EXPECT_GT(of_answer.answer_seconds, 0);
  EXPECT_EQ(toy.proposed(longer), toy.right(longer, 2));
}

TEST(DraftModel, ReadsTheSamePromptOnce) {
  DraftingToy toy({.num_pages = 80, .max_batch_tokens = 64});
  const Text prompt = some_text(64 * 4 + 3, 1);
  for (int n = 0; n < 4; ++n) toy.add(prompt);
  for (int n = 0; n < 5; ++n) toy.run(1);
  for (size_t text = 0; text < 4; ++text) EXPECT_EQ(toy.proposed(text), toy.right(text, 1));
  // Four steps for the pages that all texts share, and one step for the last three tokens of each text.
  EXPECT_EQ(toy.num_steps(), 5);
  toy.end(0);
  const size_t again = toy.add(prompt);  // also after some texts have ended
  toy.run(1);
  EXPECT_EQ(toy.proposed(again), toy.right(again, 1));
}

TEST(DraftModel, ReadsTheSamePromptForEachSalt) {
  DraftingToy toy({.num_pages = 80, .max_batch_tokens = 64});
  const Text prompt = some_text(64 * 2 + 3, 1);
  for (const char* salt : {"a", "b", "a"}) toy.add(prompt, salt);
  while (toy.proposed(1).empty()) toy.run(1);
  EXPECT_EQ(toy.num_steps(), 5) << "four for the pages of both salts, one for the tokens behind them";
  for (size_t text = 0; text < 3; ++text) EXPECT_EQ(toy.proposed(text), toy.right(text, 1));
}

TEST(DraftModel, GivesUpTextsForWhichThereIsNoRoom) {
  DraftingToy toy({.num_pages = 8, .max_batch_tokens = 64});
  const size_t first = toy.add(some_text(40, 1)), second = toy.add(some_text(60, 2));
  toy.run(2);
  toy.run(2);
  EXPECT_EQ(toy.proposed(first), toy.right(first, 2));
  EXPECT_EQ(toy.proposed(second), toy.right(second, 2));
  const size_t third = toy.add(some_text(50, 3));
  toy.run(2);
  EXPECT_TRUE(toy.proposed(third).empty());
  toy.push(first, 9);
  toy.end(second);
  toy.run(2);
  EXPECT_EQ(toy.proposed(first), toy.right(first, 2));
  EXPECT_TRUE(toy.proposed(third).empty());  // a text that was given up never gets drafts
  const size_t fourth = toy.add(some_text(50, 4));
  toy.run(2);
  EXPECT_EQ(toy.proposed(fourth), toy.right(fourth, 2));
  const size_t beyond_context = toy.add(some_text(5000, 5));
  toy.run(2);
  EXPECT_TRUE(toy.proposed(beyond_context).empty());
}

TEST(DraftModel, IsNotUsedAgainAfterItFails) {
  int num_calls = 0;
  DraftingToy toy({}, [&](std::span<const TokenId> context) {
    if (++num_calls == 4) throw std::runtime_error("the device is lost");
    return toy_logits(context);
  });
  const size_t text = toy.add(some_text(10, 1));
  toy.run(3);
  EXPECT_EQ(toy.proposed(text).size(), 3u);
  toy.push(text, 1);
  toy.run(3);
  EXPECT_TRUE(toy.proposed(text).empty());
  toy.push(text, 1);
  toy.run(3);
  EXPECT_TRUE(toy.proposed(text).empty());
  EXPECT_EQ(num_calls, 4);
}

// The controller decides after the step ahead was launched, so drafts are tried one step later.
TEST(DraftModel, IsTriedWhereStepsRunAheadToo) {
  EngineOptions options{.num_pages = 80, .max_batch_tokens = 64, .max_sequences = 1};
  const auto drafting = std::make_shared<ToyBackend>(options, toy_logits);
  options.speculation = {.drafters = {[](const DrafterSources& sources) {
                           return std::make_unique<ModelDrafter>(*sources.model);
                         }},
                         .draft_model = "toy",
                         .model = {drafting, options.num_pages, options.max_batch_tokens}};
  for (const int num_ahead : {0, 1}) {
    ToyBackend backend(options, toy_logits, num_ahead);
    const int num_before = drafting->num_steps();
    {
      Engine engine(backend, tokenizer(), options);
      Answers answers(engine);
      answers.wait_for(engine.submit({.prompt = some_text(10, 1), .stop = {.max_tokens = 100}}));
    }
    EXPECT_GE(drafting->num_steps(), num_before + 3) << num_ahead << " steps ahead";
  }
}

}  // namespace
}  // namespace nibble::speculative
