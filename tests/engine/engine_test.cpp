// Tests the engine from outside, requests in and events out, on a toy model with known answers.
#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

#include "core/errors/error.h"
#include "tests/engine/toy_engine.h"
#include "tests/error_of.h"

namespace nibble {
namespace {

using testing::HasSubstr;

class EngineFault : public EngineAnswers {};
class EnginePrefix : public EngineAnswers {};

TEST_P(EngineAnswers, AnswersWithWhatTheModelSays) {
  Toy toy;
  const GenerationRequest asked = request(tokens_of("Once upon a time"), 40);
  const Answer& answer = toy.ask(asked);
  EXPECT_EQ(answer.tokens, run_alone(asked));
  EXPECT_EQ(answer.text, text_of(answer.tokens));
  ASSERT_TRUE(answer.finished);
  EXPECT_EQ(answer.finished->reason, FinishReason::kMaxTokens);
  EXPECT_EQ(answer.finished->num_prompt_tokens, 16);
  EXPECT_EQ(answer.finished->num_output_tokens, 40);
}

TEST_P(EngineAnswers, GivesManyRequestsTogetherWhatEachGetsAlone) {
  std::mt19937 random(1);
  EngineOptions narrow = options();
  narrow.num_pages = 60;  // enough for about four sequences at the same time
  Toy toy(toy_logits, narrow);
  std::vector<std::pair<RequestId, GenerationRequest>> asked;
  for (int n = 0; n < 150; ++n) {
    const GenerationRequest next = random_request(random);
    asked.emplace_back(toy.engine.submit(next), next);
  }
  for (const auto& [id, given] : asked) {
    const Answer& answer = toy.answers.wait_for(id);
    ASSERT_TRUE(answer.finished);
    EXPECT_EQ(answer.tokens, run_alone(given));
    EXPECT_EQ(answer.text, text_of(answer.tokens));
  }
}

TEST_P(EngineAnswers, TakesRequestsFromManyThreads) {
  Toy toy;
  constexpr int kNumThreads{4}, kNumRequests{25};
  std::mutex mutex;
  std::map<RequestId, GenerationRequest> asked;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kNumThreads; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int n = 0; n < kNumRequests; ++n) {
        const GenerationRequest next = random_request(random);
        const RequestId id = toy.engine.submit(next);
        const std::lock_guard lock(mutex);
        asked[id] = next;
      }
    });
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(asked.size(), size_t{kNumThreads * kNumRequests});
  for (const auto& [id, given] : asked) EXPECT_EQ(toy.answers.wait_for(id).tokens, run_alone(given));
}

TEST_P(EngineAnswers, TheSameSeedGivesTheSameTextAndAnotherSeedAnother) {
  Toy toy;
  GenerationRequest asked = request(tokens_of("seed"), 50);
  asked.sample = {.temperature = 1, .seed = 7};
  const Tokens first = toy.ask(asked).tokens;
  EXPECT_EQ(toy.ask(asked).tokens, first);
  asked.sample.seed = 8;
  EXPECT_NE(toy.ask(asked).tokens, first);
}

TEST_P(EngineAnswers, ReportsLogprobsOnRequest) {
  Toy toy;
  GenerationRequest asked = request(tokens_of("logprobs"), 5);
  EXPECT_TRUE(toy.ask(asked).sampled[0].top.empty());
  asked.sample.num_logprobs = 3;
  const Answer& answer = toy.ask(asked);
  ASSERT_EQ(answer.sampled.size(), 5u);
  for (const SampledToken& token : answer.sampled) {
    ASSERT_EQ(token.top.size(), 3u);
    EXPECT_EQ(token.top[0].token, token.token);  // greedy sampling takes the likeliest token
    EXPECT_EQ(token.top[0].logprob, token.logprob);
    EXPECT_LT(token.logprob, 0);
  }
}

TEST_P(EngineAnswers, ReportsThoseOfThePromptHoweverItIsCut) {
  // With 20 pages, sequences are preempted and run their prompt again.
  for (const int num_pages : {400, 20}) {
    EngineOptions narrow = options();
    narrow.max_batch_tokens = 24;
    narrow.num_pages = num_pages;
    Toy toy(toy_logits, narrow);
    std::vector<GenerationRequest> requests;
    std::mt19937 random(5);
    for (int n = 0; n < 30; ++n) {
      GenerationRequest& next = requests.emplace_back();
      next = request(tokens_of("The same beginning of all, longer than a page: "), 70);
      for (size_t i = random() % 90; i > 0; --i)
        next.prompt.push_back(token_of(static_cast<char>('a' + random() % 6)));
      if (n % 3 != 0) next.prompt_logprobs = n % 4;
    }
    for (const auto& [id, given] : toy.submit_together(requests)) {
      const Answer& answer = toy.answers.wait_for(id);
      EXPECT_EQ(answer.tokens, run_alone(given));
      if (given.prompt_logprobs < 0) {
        EXPECT_TRUE(answer.prompt.empty());
        continue;
      }
      EXPECT_EQ(answer.finished->num_cached_tokens, 0);
      const std::vector<float> expected = prompt_logprobs(given.prompt);
      ASSERT_EQ(answer.prompt.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(answer.prompt[i].token, given.prompt[i + 1]);
        EXPECT_FLOAT_EQ(answer.prompt[i].logprob, expected[i]);
        EXPECT_EQ(std::ssize(answer.prompt[i].top), given.prompt_logprobs);
      }
    }
    EXPECT_EQ(toy.engine.state().counts.num_preemptions > 0, num_pages == 20);
  }
}

TEST_P(EngineAnswers, APromptOfOneTokenOrOfImpossibleOnesHasThoseTheModelGives) {
  Toy toy;
  GenerationRequest asked = request({kToyVocab - 1}, 2);
  asked.prompt_logprobs = 1;
  EXPECT_TRUE(toy.ask(asked).prompt.empty());
  asked.prompt.push_back(kToyVocab - 2);  // the toy model's logit of this token is -infinity
  const Answer& answer = toy.ask(asked);
  ASSERT_EQ(answer.prompt.size(), 1u);
  EXPECT_EQ(answer.prompt[0].token, kToyVocab - 2);
  EXPECT_EQ(answer.prompt[0].logprob, -std::numeric_limits<float>::infinity());
  EXPECT_GT(answer.prompt[0].top[0].logprob, -10);
}

TEST_P(EngineAnswers, ServesFirstComeFirstServed) {
  EngineOptions one_at_a_time = options();
  one_at_a_time.max_sequences = 1;
  Toy toy(toy_logits, one_at_a_time);
  std::mt19937 random(2);
  std::vector<RequestId> asked;
  for (int n = 0; n < 20; ++n) asked.push_back(toy.engine.submit(random_request(random)));
  toy.answers.wait_for(asked.back());
  EXPECT_EQ(toy.answers.ends(), asked);
}

// ---- faults ----

TEST_P(EngineFault, ARequestThatCannotBeRunFailsAndOthersGoOn) {
  Toy toy;
  const GenerationRequest good = request(tokens_of("good"), 20);
  const RequestId first = toy.engine.submit(good);
  const RequestId bad = toy.engine.submit({});
  const RequestId second = toy.engine.submit(good);
  EXPECT_THAT(toy.answers.wait_for(bad).failed.value().message, HasSubstr("the prompt is empty"));
  EXPECT_EQ(toy.answers.wait_for(first).tokens, run_alone(good));
  EXPECT_EQ(toy.answers.wait_for(second).tokens, run_alone(good));
}

TEST_P(EngineFault, ABackendThatThrowsFailsTheRequestsOfThatStepAndTheEngineGoesOn) {
  constexpr TokenId kPoison{300};
  const ToyModel fragile = [](std::span<const TokenId> context) {
    if (context[0] == kPoison) throw std::runtime_error("the cable was pulled");
    return toy_logits(context);
  };
  EngineOptions small = options();
  small.num_pages = 40;
  Toy toy(fragile, small);
  const GenerationRequest good = request(tokens_of("good"), 20);
  EXPECT_EQ(toy.ask(good).tokens, run_alone(good));
  for (int n = 0; n < 20; ++n) {
    const Answer& bad = toy.ask(request({kPoison, 1, 2}, 5));
    EXPECT_EQ(bad.failed.value().message, "the model could not be run: the cable was pulled");
    EXPECT_EQ(toy.ask(good).tokens, run_alone(good));
  }
  // This request needs every page, so it finishes only if all of them were freed.
  EXPECT_TRUE(toy.ask(request(Tokens(100, 1), 20 * kPageTokens - 100 + 1)).finished);
}

TEST_P(EngineFault, ARowWithoutNumbersFailsItsRequestAlone) {
  std::binary_semaphore both_are_in{0};
  bool is_first = true;
  const ToyModel damaged = [&](std::span<const TokenId> context) {
    // The first step waits until both requests are submitted, so all later steps run both.
    if (std::exchange(is_first, false)) both_are_in.acquire();
    if (context[0] != 300 || context.size() < 5) return toy_logits(context);
    return std::vector<float>(kToyVocab, std::numeric_limits<float>::quiet_NaN());
  };
  Toy toy(damaged);
  const GenerationRequest good = request(tokens_of("good"), 200), bad = request({300, 1, 2}, 50);
  const RequestId first = toy.engine.submit(good), second = toy.engine.submit(bad);
  both_are_in.release();
  const Answer& failed = toy.answers.wait_for(second);
  EXPECT_EQ(failed.tokens.size(), 2u);
  EXPECT_THAT(failed.failed.value().message, HasSubstr("logits at position 4 are all NaN"));
  EXPECT_FALSE(failed.failed->is_requests_own);
  EXPECT_EQ(toy.answers.wait_for(first).tokens, run_alone(good));
}

TEST_P(EngineFault, OptionsThatNoRequestCouldRunWithAreRefused) {
  const auto message = [](auto spoil) {
    EngineOptions bad = options();
    spoil(bad);
    ToyBackend backend(options(), toy_logits);
    return error_of([&] { Engine(backend, tokenizer(), bad); });
  };
  EXPECT_EQ(message([](EngineOptions&) {}), "accepted");
  EXPECT_THAT(message([](EngineOptions& o) { o.max_batch_tokens = 0; }), HasSubstr("max_batch_tokens is 0"));
  EXPECT_THAT(message([](EngineOptions& o) { o.max_sequences = 0; }), HasSubstr("max_sequences is 0"));
  EXPECT_THAT(message([](EngineOptions& o) { o.max_context = 4097; }), HasSubstr("it must be 1 to 4096"));
  EXPECT_THAT(message([](EngineOptions& o) { o.max_context = -1; }), HasSubstr("context is -1"));
  EXPECT_THAT(message([](EngineOptions& o) { o.num_pages = 1; }), HasSubstr("has 1 pages"));
}

// ---- trees of drafts ----

// A backend that supports only chains of drafts.
struct ChainBackend : ToyBackend {
  using ToyBackend::ToyBackend;
  bool takes_trees() const override { return false; }
};

TEST(EngineTrees, AreChainsWhereTheBackendTakesNoneAndCostDecidesElseRefused) {
  EngineOptions given = options();
  given.speculation = drafts_of(likeliest(toy_logits), 5, 2);
  ChainBackend backend(given, toy_logits);
  EXPECT_THAT(error_of([&] { Engine(backend, tokenizer(), given); }),
              HasSubstr("topk is 2, which makes trees of drafts, but the toy backend supports only chains"));
  given.speculation.by_cost = true;
  Engine engine(backend, tokenizer(), given);
}

// A backend that supports trees, but for which `auto` does not try them.
struct UntriedBackend : ToyBackend {
  using ToyBackend::ToyBackend;
  bool tries_trees() const override { return false; }
  StepResult step(const Batch& batch) override {
    for (const Run& run : batch.runs) {
      num_drafts += run.drafted.count;
      num_trees += !run.drafted.parents.empty();
    }
    return ToyBackend::step(batch);
  }
  int num_drafts{0}, num_trees{0};
};

TEST(EngineTrees, AreForWhoAsksForThemWhereTheBackendDoesNotTryThem) {
  for (const bool by_cost : {true, false}) {
    EngineOptions given = options();
    given.speculation = drafts_of(likeliest(toy_logits), 5, 2);
    given.speculation.by_cost = by_cost;
    UntriedBackend backend(given, toy_logits);
    {
      Engine engine(backend, tokenizer(), given);
      Answers answers(engine);
      answers.wait_for(engine.submit(request(Tokens(3, 7), 200)));
    }
    EXPECT_EQ(backend.num_trees > 0, !by_cost);
    EXPECT_GT(backend.num_drafts, 0);
  }
}

// A drafter that makes the same kind of tree in every step: few right tokens and many wrong ones.
TEST(EngineTrees, GiveTokensOfBranchesThatAreNotTheFirst) {
  struct Second final : speculative::Drafter {
    void push(std::span<const TokenId> tokens) override {
      text.insert(text.end(), tokens.begin(), tokens.end());
    }
    speculative::Proposal propose(int most) override {
      if (most < 6) return {};
      std::vector<TokenId> context = text;
      speculative::Proposal proposal;
      int parent = -1;
      for (int place = 0; place < 3; ++place) {
        const TokenId right = likeliest(toy_logits)(context);
        context.push_back(right);
        for (const TokenId token : {right == 7 ? 8 : 7, right}) {
          proposal.tokens.push_back(token);
          proposal.parents.push_back(parent);
        }
        parent = static_cast<int>(proposal.tokens.size()) - 1;
      }
      return proposal;
    }
    std::vector<TokenId> text{};
  };
  EngineOptions given{.num_pages = 300, .max_batch_tokens = 64, .max_sequences = 8};
  given.speculation = {
      .drafters = {[](const speculative::DrafterSources&) { return std::make_unique<Second>(); }},
      .by_cost = false,
      .max_drafts = 6,
      .topk = 2};
  ToyBackend backend(given, toy_logits);
  Engine engine(backend, tokenizer(), given);
  Answers answers(engine);
  const GenerationRequest asked = request(tokens_of("Once upon a time"), 41);
  const Answer& answer = answers.wait_for(engine.submit(asked));
  EXPECT_EQ(answer.tokens, run_alone(asked));
  // After the first step, each step gives four tokens, until the room left in the answer is too small for six
  // drafts.
  EXPECT_EQ(answer.finished->drafts.num_accepted, 3 * answer.finished->drafts.num_drafts);
  EXPECT_GE(answer.finished->drafts.num_drafts, 8u);
}

// ---- drafts that the backend makes ----

// Counts runs whose first token is unknown when they are launched, and runs whose position is unknown too.
struct CountingBackend : ToyBackend {
  using ToyBackend::ToyBackend;
  void launch(const Batch& batch) override {
    for (const Run& run : batch.runs) {
      num_runs += run.draft_request.has_value();
      num_behind_tokens += run.ahead && run.drafted.count > 0;
      num_after_drafts += run.ahead && run.ahead->num_unsure > 0;
    }
    ToyBackend::launch(batch);
  }
  int num_runs{0}, num_behind_tokens{0}, num_after_drafts{0};
};

// The requests' tokens depend only on seed and position. The cache is too small for all requests, and some
// requests end early or are cancelled.
TEST(EngineAhead, StepsAreLaunchedAfterDraftsBeforeTheseAreKnown) {
  for (const int num_drafts : {1, 4, 9}) {
    EngineOptions given{.num_pages = 26, .max_batch_tokens = 64, .max_sequences = 6};
    given.speculation = drafts_of_head(num_drafts);
    std::atomic<bool> are_held{false};
    CountingBackend backend(given, held(toy_logits, are_held), 1);
    Submitted asked;
    {
      Engine engine(backend, tokenizer(), given);
      Answers answers(engine);
      std::mt19937 random(9);
      std::optional<HeldSteps> steps(are_held);
      for (int n = 0; n < 60; ++n) {
        GenerationRequest next = random_request(random);
        next.sample.repetition_penalty = 1;
        next.sample.presence_penalty = 0;
        next.stop.max_tokens += 60;
        next.stop.min_tokens = 0;
        next.bans = {};
        next.sample.logit_bias = {{token_of('c'), 1.0f}};
        next.sample.num_logprobs = n % 3;
        asked.emplace_back(engine.submit(next), next);
        if (n % 7 == 3) engine.cancel(asked.back().first);
      }
      steps.reset();
      for (const auto& [id, request] : asked) {
        const Answer& answer = answers.wait_for(id);
        Tokens expected = run_alone(request);
        if (answer.finished.value().reason == FinishReason::kCancelled) expected.resize(answer.tokens.size());
        EXPECT_EQ(answer.tokens, expected);
      }
      const EngineState state = engine.state();
      EXPECT_GT(state.counts.num_preemptions, 0u);
      EXPECT_GT(state.drafts.num_accepted, state.drafts.num_drafts / 3);
      EXPECT_EQ(state.pages_held.full, 0);
    }
    EXPECT_GT(backend.num_behind_tokens, backend.num_runs / 2);
    EXPECT_GT(backend.num_after_drafts, backend.num_runs / 2);
  }
}

// A prediction is compared on the host, and penalties count tokens that the host knows, so steps must wait
// for the tokens.
TEST(EngineAhead, ARequestThatNeedsWhatIsKnownHasAllStepsWait) {
  for (const bool predicts : {false, true}) {
    EngineOptions given = options();
    given.speculation = drafts_of_head(4);
    CountingBackend backend(given, toy_logits, 1);
    {
      Engine engine(backend, tokenizer(), given);
      Answers answers(engine);
      GenerationRequest asked = request(tokens_of("Once upon a time"), 60);
      if (predicts)
        asked.prediction =
            std::make_shared<speculative::Prediction>(speculative::Prediction{Tokens{}, tokens_of("ab")});
      else
        asked.sample.frequency_penalty = 0.5f;
      EXPECT_EQ(answers.wait_for(engine.submit(asked)).tokens, run_alone(asked));
      EXPECT_GT(engine.state().drafts.num_accepted, 0u);
    }
    EXPECT_GT(backend.num_runs, 0);
    EXPECT_EQ(backend.num_behind_tokens + backend.num_after_drafts, 0);
  }
}

// ---- common prefixes, and pages that run out ----

TEST_P(EnginePrefix, TheAnswersAreThoseOfTheModelWithSharedPagesAndWithout) {
  for (const bool prefix_cache : {true, false}) {
    std::mt19937 random(3);
    EngineOptions narrow = options();
    narrow.num_pages = 40;  // the longest request needs 33
    narrow.prefix_cache = prefix_cache;
    Toy toy(toy_logits, narrow);
    std::vector<GenerationRequest> requests;
    Tokens base(200);
    for (TokenId& token : base) token = static_cast<TokenId>(random() % kToyVocab);
    for (int n = 0; n < 200; ++n) {
      GenerationRequest next = random_request(random);
      next.stop.max_tokens = 20 + static_cast<int>(random() % 200);
      if (n % 3 != 0) {
        const auto num_shared = static_cast<ptrdiff_t>(random() % base.size());
        next.prompt.insert(next.prompt.begin(), base.begin(), base.begin() + num_shared);
      }
      requests.push_back(std::move(next));
    }
    for (const auto& [id, given] : toy.submit_together(requests))
      ASSERT_EQ(toy.answers.wait_for(id).tokens, run_alone(given));
    const SchedulerCounts counts = toy.engine.state().counts;
    EXPECT_GT(counts.num_preemptions, 5u);
    EXPECT_EQ(counts.num_cached_tokens > 500, prefix_cache);
  }
}

TEST_P(EnginePrefix, WhatWasNotRunIsReported) {
  Toy toy;
  const GenerationRequest asked = request(Tokens(100, 7), 5);
  EXPECT_EQ(toy.ask(asked).finished->num_cached_tokens, 0);
  EXPECT_EQ(toy.ask(asked).finished->num_cached_tokens, 96);
  EXPECT_EQ(toy.engine.state().counts.num_prompt_tokens, 200u);
  EXPECT_EQ(toy.engine.state().counts.num_cached_tokens, 96u);
}

TEST_P(EnginePrefix, RequestsShareTheirTextsWithThoseOfTheSameSaltOnly) {
  Toy toy;
  GenerationRequest asked = request(Tokens(100, 7), 5);
  const Tokens expected = run_alone(asked);
  for (const auto& [salt, num_known] : std::vector<std::pair<std::string, int>>{
           {"a", 0}, {"", 0}, {"b", 0}, {"a", 96}, {"", 96}, {"b", 96}, {"c", 0}}) {
    asked.cache_salt = salt;
    const Answer& answer = toy.ask(asked);
    EXPECT_EQ(answer.finished.value().num_cached_tokens, num_known) << salt;
    EXPECT_EQ(answer.tokens, expected);
  }
}

TEST_P(EnginePrefix, RequestsShareTheirTextsWithThoseOfTheSameAdapterOnly) {
  struct Case {
    std::optional<AdapterId> adapter;
    std::string salt;
    int num_known;
  };
  Toy toy;
  GenerationRequest asked = request(Tokens(100, 7), 5);
  for (const Case& it : std::vector<Case>{{{}, "", 0},
                                          {AdapterId{0}, "", 0},
                                          {AdapterId{1}, "", 0},
                                          {AdapterId{1}, "", 96},
                                          {{}, "1:", 0},
                                          {AdapterId{1}, "1:", 0},
                                          {AdapterId{11}, "", 0},
                                          {AdapterId{1}, "1:", 96},
                                          {{}, "-", 0},
                                          {AdapterId{0}, "", 96},
                                          {{}, "", 96}}) {
    asked.adapter = it.adapter;
    asked.cache_salt = it.salt;
    EXPECT_EQ(toy.ask(asked).finished.value().num_cached_tokens, it.num_known) << it.salt;
  }
}

// The next turn's prompt is this turn's prompt and answer without the reasoning. The reasoning is longer than
// the window.
TEST_P(EnginePrefix, AChatThatDropsItsReasoningHitsEverythingBeforeTheChange) {
  EngineOptions one = options();
  one.max_sequences = 1;
  Toy toy(toy_logits, one);
  Tokens prompt =
      tokens_of("You are a patient teacher. Who was Ada Lovelace, and what did she write about engines?");
  int num_known = 0;  // length of the prefix in common with the previous prompt
  for (int turn = 0; turn < 6; ++turn) {
    const GenerationRequest asked = request(prompt, 500);
    const Answer& answer = toy.ask(asked);
    EXPECT_EQ(answer.tokens, run_alone(asked));
    EXPECT_EQ(answer.finished->num_cached_tokens, num_known / kPageTokens * kPageTokens) << "turn " << turn;
    const Tokens final_words(answer.tokens.end() - 40, answer.tokens.end());
    prompt = prompt + final_words + tokens_of("And what came after that?");
    num_known = static_cast<int>(
        std::mismatch(prompt.begin(), prompt.end(), (asked.prompt + answer.tokens).begin()).first -
        prompt.begin());
  }
}

TEST_P(EnginePrefix, ChoicesAreRequestsOfTheirOwnThatRunTheirPromptOnce) {
  Toy toy;
  GenerationRequest asked = request(Tokens(300, 9), 30);
  asked.sample = {.temperature = 1, .seed = 7};
  const std::vector<RequestId> ids = toy.engine.submit_choices(asked, 5);
  ASSERT_EQ(ids.size(), 5u);
  std::set<Tokens> texts;
  for (size_t choice = 0; choice < ids.size(); ++choice) {
    const Answer& answer = toy.answers.wait_for(ids[choice]);
    EXPECT_EQ(answer.finished.value().num_cached_tokens, choice == 0 ? 0 : 288);
    texts.insert(answer.tokens);
  }
  EXPECT_EQ(texts.size(), 5u);
  EXPECT_EQ(toy.answers[ids[0]].tokens, run_alone(asked));
  const std::vector<RequestId> again = toy.engine.submit_choices(asked, 2);
  EXPECT_EQ(toy.answers.wait_for(again[1]).tokens, toy.answers[ids[1]].tokens);
}

TEST_P(EnginePrefix, ChoicesOfARequestThatCannotBeRunAllFail) {
  Toy toy;
  for (const RequestId id : toy.engine.submit_choices({}, 3)) EXPECT_TRUE(toy.answers.wait_for(id).failed);
}

// A backend with its own clock: a step takes 1,000 ns, and the gap after step n is 250 n ns.
class ClockedBackend : public ToyBackend {
 public:
  using ToyBackend::ToyBackend;
  StepResult step(const Batch& batch) override {
    StepResult result = ToyBackend::step(batch);
    now_ns_ += 250 * static_cast<uint64_t>(num_steps() - 1);
    result.device_times = DeviceTimes{now_ns_, now_ns_ + 1000};
    now_ns_ += 1000;
    return result;
  }

 private:
  uint64_t now_ns_{uint64_t{1} << 60};  // real device clocks count nanoseconds from 1970
};

// Idle time counts only gaps between decode steps: not gaps next to prefill steps, nor time without requests.
TEST_P(EngineAnswers, SayHowLongADeviceWithAClockWasIdleBetweenStepsOfDecoding) {
  if (max_drafts > 0) return;  // with drafts, the number of steps is not fixed
  EngineOptions given = options();
  std::vector<StepReport> reports;
  given.on_step = [&](const StepReport& report) { reports.push_back(report); };
  {
    ClockedBackend backend(given, toy_logits, steps_ahead);
    Engine engine(backend, tokenizer(), given);
    Answers answers(engine);
    for (int n = 0; n < 2; ++n) answers.wait_for(engine.submit(request(Tokens(3, 7 + n), 6)));
  }
  // Each answer has six tokens: one from the prefill step, five from decode steps.
  ASSERT_EQ(reports.size(), 12u);
  // The step that is launched before the first token is known counts as a prefill step.
  const size_t first = steps_ahead > 0 ? 3 : 2;
  for (size_t i = 0; i < reports.size(); ++i) {
    ASSERT_EQ(reports[i].device_idle_seconds.has_value(), i % 6 >= first) << i;
    EXPECT_NEAR(reports[i].device_idle_seconds.value_or(0),
                i % 6 >= first ? 250e-9 * static_cast<double>(i) : 0, 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(Ahead, EngineAnswers, testing::ValuesIn(kAllWays));
INSTANTIATE_TEST_SUITE_P(Ahead, EngineFault, testing::ValuesIn(kAllWays));
INSTANTIATE_TEST_SUITE_P(Ahead, EnginePrefix,
                         testing::Values(HowToRun{0, 0}, HowToRun{1, 0}, HowToRun{0, 4}));

}  // namespace
}  // namespace nibble
