// Tests answers under a grammar, on a toy model with known answers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>
#include <random>
#include <semaphore>
#include <set>

#include "core/errors/error.h"
#include "core/text/json.h"
#include "engine/engine.h"
#include "grammar/languages/regex.h"
#include "grammar/languages/schema/json_schema.h"
#include "grammar/matching/text_constraint.h"
#include "tests/engine/toy_engine.h"

namespace nibble {
namespace {

using testing::HasSubstr;

class EngineConstraint : public EngineAnswers {};

const grammar::VocabularyTrie& vocabulary() {
  static const grammar::VocabularyTrie tiny(tokenizer());
  return tiny;
}

// Returns a request whose answer is a text of the grammar without semicolons, then a semicolon.
GenerationRequest constrained(const Tokens& prompt, std::shared_ptr<grammar::Grammar> of, int max_tokens) {
  GenerationRequest asked = request(prompt, max_tokens);
  asked.stop.tokens = {token_of(';')};
  asked.constraint =
      std::make_shared<grammar::TextConstraint>(std::move(of), vocabulary(), asked.stop.tokens);
  return asked;
}
std::shared_ptr<grammar::Grammar> schema(const char* json) {
  return grammar::compile_json_schema(Json::parse(json)).grammar;
}
const char* const kPoint{
    R"({"type": "object", "required": ["longitude", "latitude"], "additionalProperties": false,
    "properties": {"longitude": {"type": "integer", "maximum": 200}, "latitude": {"enum": [12, 1277, "north"]}}})"};

TEST_P(EngineConstraint, EveryAnswerIsATextOfItsGrammarAndWhatTheModelSaysOfIt) {
  // With 28 pages, sequences are preempted.
  for (const int num_pages : {400, 28}) {
    EngineOptions narrow = options();
    narrow.max_batch_tokens = 24;
    narrow.num_pages = num_pages;
    Toy toy(toy_logits, narrow);
    std::mt19937 random(6);
    const auto points = schema(
        fmt::format(R"({{"type": "array", "minItems": 4, "maxItems": 4, "items": {}}})", kPoint).c_str());
    std::vector<GenerationRequest> requests;
    for (int n = 0; n < 40; ++n) {
      GenerationRequest next = random_request(random);
      next.prompt.resize(std::min<size_t>(next.prompt.size(), 60));
      if (n % 2 == 0) {
        const SampleParams sampling = next.sample;
        next = constrained(next.prompt, points, 380);
        next.sample = sampling;
      }
      requests.push_back(std::move(next));
    }
    for (const auto& [id, given] : toy.submit_together(requests)) {
      const Answer& answer = toy.answers.wait_for(id);
      EXPECT_EQ(answer.tokens, run_alone(given));
      if (!given.constraint) continue;
      EXPECT_EQ(answer.finished.value().reason, FinishReason::kStopToken);
      const auto json = Json::parse(answer.text);
      EXPECT_EQ(json.size(), 4u);
      for (const auto& point : json) EXPECT_LE(point.at("longitude").get<double>(), 200);
    }
    EXPECT_EQ(toy.engine.state().counts.num_preemptions > 0, num_pages == 28);
  }
}

TEST_P(EngineConstraint, AmongOthersARequestHasAPlaceInEveryStep) {
  constexpr int kNumTokens{30};
  std::binary_semaphore has_begun{0}, others_are_there{0};
  std::once_flag first_call;
  Toy toy([&](std::span<const TokenId> context) {
    std::call_once(first_call, [&] {
      has_begun.release();
      others_are_there.acquire();
    });
    return toy_logits(context);
  });
  std::vector<RequestId> ids{toy.engine.submit(request({token_of('a')}, kNumTokens))};
  has_begun.acquire();
  const auto letters = grammar::compile_regex("[a-z]{1000}").grammar;
  for (const char who : {'b', 'c', 'd'})
    ids.push_back(toy.engine.submit(constrained({token_of(who)}, letters, kNumTokens)));
  others_are_there.release();
  for (const RequestId id : ids) EXPECT_EQ(std::ssize(toy.answers.wait_for(id).tokens), kNumTokens);
  // The first request runs one step before the others join, or two if steps are launched ahead.
  EXPECT_LE(toy.backend.num_steps(), kNumTokens + 2);
}

TEST_P(EngineConstraint, TokensThatMustFollowTakeNoStep) {
  // The tokenizer merges none of these characters, so without forced tokens each would take a step. The toy
  // model, too, samples only tokens of one byte.
  std::string run;
  for (int i = 0; i < 25; ++i) run += "~^`@~`^@";
  ASSERT_EQ(tokenizer().encode(run, SpecialTokens::kOrdinary).size(), run.size());
  ToyBackend backend(options(), toy_logits, steps_ahead);
  std::optional<Engine> engine(std::in_place, backend, tokenizer(), options());
  Answers answers(*engine);
  const auto ask = [&](const GenerationRequest& of) { return answers.wait_for(engine->submit(of)); };
  const auto asked = [&](std::vector<std::string> texts, int max_tokens) {
    return constrained({0}, grammar::compile_choice(texts).grammar, max_tokens);
  };
  const Answer answer = ask(asked({run}, 500));
  EXPECT_EQ(answer.text, run);
  EXPECT_EQ(answer.finished.value().reason, FinishReason::kStopToken);
  EXPECT_EQ(answer.finished->num_output_tokens, std::ssize(run) + 1);
  EXPECT_EQ(ask(asked({run}, 7)).text, run.substr(0, 7));  // the token limit falls inside the run
  EXPECT_THAT(ask(asked({run + "x", run + "y"}, 500)).text, testing::AnyOf(run + "x", run + "y"));
  engine.reset();
  EXPECT_LE(backend.num_steps(), 10);
}

TEST_P(EngineConstraint, LogprobsChangeNoTokenAndEachHasItsOwn) {
  Toy toy;
  GenerationRequest asked = constrained(tokens_of("where"), schema(kPoint), 200);
  asked.sample = {.temperature = 1, .seed = 3};
  const Tokens without = toy.ask(asked).tokens;
  asked.sample.num_logprobs = 1;
  const Answer& answer = toy.ask(asked);
  EXPECT_EQ(answer.tokens, without);
  Tokens context = asked.prompt;
  for (const SampledToken& token : answer.sampled) {
    context.push_back(token.token);
    const float expected = prompt_logprobs(context).back();
    if (std::isinf(expected))
      EXPECT_EQ(token.logprob, expected);
    else
      EXPECT_NEAR(token.logprob, expected, 1e-5);
    EXPECT_EQ(token.top.size(), 1u);
  }
}

TEST_P(EngineConstraint, EachChoiceGoesItsOwnWay) {
  Toy toy;
  GenerationRequest asked = constrained(tokens_of("n"), grammar::compile_regex("[a-f]{5,30}").grammar, 100);
  asked.sample = {.temperature = 1, .seed = 11};
  std::set<Tokens> different;
  for (const RequestId id : toy.engine.submit_choices(asked, 8)) {
    const Answer& answer = toy.answers.wait_for(id);
    EXPECT_THAT(answer.text, testing::MatchesRegex("[a-f]+"));
    different.insert(answer.tokens);
  }
  EXPECT_GT(different.size(), 5u);
}

// A constraint that allows every token, and throws after a number of masks or of accepted tokens.
class Tiring : public grammar::Constraint {
 public:
  Tiring(int masks, int tokens) : num_masks_(masks), num_tokens_(tokens) {}
  std::unique_ptr<Constraint> fork() const override { return std::make_unique<Tiring>(*this); }
  void fill_mask(std::span<uint32_t> mask) override {
    if (num_masks_-- == 0) throw InputError("too many masks");
    std::fill(mask.begin(), mask.end(), ~0u);
  }
  bool accept(TokenId) override {
    if (num_tokens_-- == 0) throw InputError("too many tokens");
    return true;
  }
  std::vector<TokenId> forced_tokens() override { return {}; }

 private:
  int num_masks_, num_tokens_;
};

TEST_P(EngineConstraint, OneThatTakesTooMuchWorkFailsItsAnswerAlone) {
  Toy toy;
  GenerationRequest of_masks = request(tokens_of("masks"), 50), of_tokens = request(tokens_of("tokens"), 50);
  of_masks.constraint = std::make_shared<Tiring>(5, 1000);
  of_tokens.constraint = std::make_shared<Tiring>(1000, 5);
  const GenerationRequest other = request(tokens_of("other"), 50);
  const RequestId first = toy.engine.submit(of_masks), second = toy.engine.submit(of_tokens),
                  third = toy.engine.submit(other);
  EXPECT_THAT(toy.answers.wait_for(first).failed.value().message, HasSubstr("too many masks"));
  EXPECT_THAT(toy.answers.wait_for(second).failed.value().message, HasSubstr("too many tokens"));
  EXPECT_EQ(toy.answers.wait_for(third).tokens, run_alone(other));
  EXPECT_EQ(toy.engine.state().num_faults, 0u);
}

TEST_P(EngineConstraint, OneThatLeavesOnlyBannedTokensFailsItsAnswer) {
  Toy toy;
  GenerationRequest asked = constrained(tokens_of("none"), grammar::compile_regex("[abc]+").grammar, 50);
  asked.bans.allowed = std::make_shared<Tokens>(tokens_of("xyz"));
  const FailedEvent failed = toy.ask(asked).failed.value();
  EXPECT_THAT(failed.message, HasSubstr("the grammar and the bans leave no token at position 3"));
  EXPECT_TRUE(failed.is_requests_own);
  asked.bans.allowed = std::make_shared<Tokens>(tokens_of("xyzb;"));
  EXPECT_THAT(toy.ask(asked).text, testing::MatchesRegex("b+"));
}

INSTANTIATE_TEST_SUITE_P(Ahead, EngineConstraint, testing::ValuesIn(kAllWays));

}  // namespace
}  // namespace nibble
