// Tests on the toy model that a request can be cancelled at any moment without affecting other requests.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <random>
#include <semaphore>
#include <thread>
#include <utility>
#include <vector>

#include "tests/engine/toy_engine.h"

namespace nibble {
namespace {

class EngineCancel : public EngineAnswers {};

TEST_P(EngineCancel, EndsARunningRequestAtTheNextStep) {
  Gate gate;
  std::optional<Toy> toy(std::in_place, gate.model());
  const RequestId id = toy->engine.submit(request(tokens_of("cancel me"), 50));
  gate.arrived.acquire();  // the request's first step is running
  toy->engine.cancel(id);
  gate.passed.release(1 + steps_ahead);
  const Answer answer = toy->answers.wait_for(id);
  EXPECT_EQ(answer.finished.value().reason, FinishReason::kCancelled);
  EXPECT_EQ(answer.tokens.size(), 1u);  // the token of the running step
  toy.reset();
  for (int n = 0; n < steps_ahead; ++n) EXPECT_TRUE(gate.arrived.try_acquire());  // the steps launched ahead
  EXPECT_FALSE(gate.arrived.try_acquire()) << "a step was run for nobody";
}

TEST_P(EngineCancel, EndsAWaitingRequestBeforeItHasRun) {
  Gate gate;
  EngineOptions one_at_a_time = options();
  one_at_a_time.max_sequences = 1;
  Toy toy(gate.model(), one_at_a_time);
  const RequestId first = toy.engine.submit(request(tokens_of("first"), 2));
  gate.arrived.acquire();
  const RequestId second = toy.engine.submit(request(tokens_of("second"), 2));
  toy.engine.cancel(second);
  gate.passed.release(2);
  const Answer& cancelled = toy.answers.wait_for(second);
  EXPECT_EQ(cancelled.finished.value().reason, FinishReason::kCancelled);
  EXPECT_TRUE(cancelled.tokens.empty());
  EXPECT_EQ(cancelled.finished->prefill_seconds, 0);
  EXPECT_EQ(toy.answers.wait_for(first).tokens.size(), 2u);
}

TEST_P(EngineCancel, FreesThePagesForTheNextInTheQueue) {
  EngineOptions small = options();
  small.num_pages = 20;
  Gate gate;
  Toy toy(gate.model(), small);
  const RequestId first = toy.engine.submit(request(tokens_of("all pages"), 300));
  gate.arrived.acquire();
  const RequestId second = toy.engine.submit(request(tokens_of("all pages too"), 300));
  toy.engine.cancel(first);
  gate.passed.release(1 + steps_ahead + 300);
  EXPECT_EQ(toy.answers.wait_for(second).tokens.size(), 300u);
}

TEST_P(EngineCancel, OfWhatHasEndedOrNeverWasDoesNothing) {
  Toy toy;
  const GenerationRequest asked = request(tokens_of("done"), 3);
  const RequestId id = toy.engine.submit(asked);
  toy.answers.wait_for(id);
  toy.engine.cancel(id);
  toy.engine.cancel(RequestId{12345});
  EXPECT_EQ(toy.ask(asked).tokens, run_alone(asked));
  EXPECT_FALSE(toy.engine.wait_event(std::chrono::milliseconds(0)));
}

TEST_P(EngineCancel, AtRandomMomentsAffectsNoOtherRequest) {
  std::mt19937 random(5);
  EngineOptions narrow = options();
  narrow.num_pages = 60;
  Toy toy(toy_logits, narrow);
  std::map<RequestId, GenerationRequest> kept;
  std::vector<RequestId> running, cancelled;
  for (int n = 0; n < 300; ++n) {
    const GenerationRequest next = random_request(random);
    const RequestId id = toy.engine.submit(next);
    if (n % 2 == 0)
      kept[id] = next;
    else
      running.push_back(id);
    for (int events = static_cast<int>(random() % 8); events > 0; --events)
      if (toy.answers.ends().size() < static_cast<size_t>(n)) toy.answers.take();
    if (running.size() > 5) {
      const auto chosen = running.begin() + static_cast<ptrdiff_t>(random() % running.size());
      toy.engine.cancel(*chosen);
      cancelled.push_back(*chosen);
      running.erase(chosen);
    }
  }
  for (const RequestId id : running) toy.engine.cancel(id), cancelled.push_back(id);
  int num_cut = 0;
  for (const RequestId id : cancelled)
    num_cut += toy.answers.wait_for(id).finished.value().reason == FinishReason::kCancelled;
  EXPECT_GT(num_cut, 0);  // the requests not cut had ended before their cancellation
  for (const auto& [id, given] : kept) EXPECT_EQ(toy.answers.wait_for(id).tokens, run_alone(given));
  // This request needs every page, so it finishes only if the cancelled requests' pages were freed.
  EXPECT_TRUE(toy.ask(request(Tokens(100, 1), 40 * kPageTokens - 100 + 1)).finished);
}

TEST_P(EngineCancel, AnEngineThatIsDestroyedFinishesItsStepAndRunsNoFurtherOne) {
  constexpr int kAnswerTokens{1000};
  Gate gate;
  // calls of the model function that have begun or finished; one call per token
  std::atomic<int> num_begun{0}, num_done{0};
  const ToyModel counted = [&, logits = gate.model()](std::span<const TokenId> context) {
    ++num_begun;
    std::vector<float> result = logits(context);
    ++num_done;
    return result;
  };
  ToyBackend backend(options(), counted, steps_ahead);
  std::optional<Engine> engine(std::in_place, backend, tokenizer(), options());
  for (int n = 0; n < 20; ++n) engine->submit(request(Tokens(3, n), kAnswerTokens));
  gate.arrived.acquire();  // a step is running and blocked

  // Answering all requests completely would take 20,000 calls of the model function.
  std::atomic<bool> is_destroyed{false};
  std::thread lets_calls_pass([&] {
    for (; !is_destroyed; std::this_thread::sleep_for(std::chrono::milliseconds(1))) gate.passed.release();
  });
  engine.reset();
  EXPECT_EQ(num_begun.load(), num_done.load()) << "the step that was under way has not ended";
  EXPECT_LT(num_begun.load(), kAnswerTokens);
  is_destroyed = true;
  lets_calls_pass.join();
}

// Numbers its steps from 1. In each step of `held`, it first fills the step's pages with wrong tokens and
// then waits. It gives the step up if the step becomes unneeded, as the CPU backend does. It runs the step if
// the test calls goes_on.release().
class ImpatientBackend : public ToyBackend {
 public:
  explicit ImpatientBackend(std::vector<int> held)
      : ToyBackend(options(), toy_logits), held_(std::move(held)) {}
  StepResult step(const Batch& batch) override {
    ++num_begun_;
    if (std::count(held_.begin(), held_.end(), num_begun_)) {
      write_wrong_tokens(batch);
      is_held.release();
      while (!*batch.is_unneeded && !goes_on.try_acquire_for(std::chrono::milliseconds(1))) {
      }
      if (*batch.is_unneeded) throw StepCut();
    }
    return ToyBackend::step(batch);
  }
  std::binary_semaphore is_held{0}, goes_on{0};

 private:
  void write_wrong_tokens(const Batch& batch) {
    std::vector<Tokens> wrong(batch.runs.size());
    std::vector<Run> runs(batch.runs.begin(), batch.runs.end());
    for (size_t n = 0; n < runs.size(); ++n) {
      wrong[n].assign(runs[n].tokens.size(), kToyVocab - 1);
      runs[n].tokens = wrong[n];
      runs[n].outputs = {};
    }
    ToyBackend::step({.runs = runs});
  }
  std::vector<int> held_;
  int num_begun_{0};
};

// Runs without steps ahead: only devices run steps ahead, and a device never gives up a step.
class EngineGivesUp : public testing::Test {
 protected:
  void SetUp() override { steps_ahead = max_drafts = 0; }
};

TEST_F(EngineGivesUp, AStepWhoseOnlyRequestIsCancelledAndKeepsThePagesOfTheStepsBefore) {
  ImpatientBackend backend({3});
  Engine engine(backend, tokenizer(), options());
  Answers answers(engine);
  const GenerationRequest asked = request(Tokens(200, 9), 3);  // 4 steps, of 64, 64, 64 and 8 tokens
  const RequestId id = engine.submit(asked);
  backend.is_held.acquire();
  engine.cancel(id);
  const Answer cancelled = answers.wait_for(id);
  EXPECT_EQ(cancelled.finished.value().reason, FinishReason::kCancelled);
  EXPECT_TRUE(cancelled.tokens.empty());
  const Answer& next = answers.wait_for(engine.submit(asked));
  EXPECT_EQ(next.tokens, run_alone(asked));
  EXPECT_EQ(next.finished.value().num_cached_tokens, 128) << "the first two steps ran to their end";
  EXPECT_EQ(engine.state().num_faults, 0u);
}

TEST_F(EngineGivesUp, NoStepThatAnotherRequestNeeds) {
  ImpatientBackend backend({1, 2});
  Engine engine(backend, tokenizer(), options());
  Answers answers(engine);
  const GenerationRequest kept = request(tokens_of("kept"), 20);
  const RequestId first = engine.submit(kept);
  backend.is_held.acquire();
  const RequestId second = engine.submit(request(tokens_of("other"), 20));
  backend.goes_on.release();
  backend.is_held.acquire();  // both requests have rows in the second step
  engine.cancel(second);
  backend.goes_on.release();
  EXPECT_EQ(answers.wait_for(first).tokens, run_alone(kept));
  EXPECT_EQ(answers.wait_for(second).finished.value().reason, FinishReason::kCancelled);
  EXPECT_EQ(engine.state().num_faults, 0u);
}

TEST_F(EngineGivesUp, ItsStepWhenItIsDestroyed) {
  ImpatientBackend backend({1});
  std::optional<Engine> engine(std::in_place, backend, tokenizer(), options());
  engine->submit(request(tokens_of("unfinished"), 20));
  backend.is_held.acquire();
  engine.reset();
  EXPECT_EQ(backend.num_steps(), 1) << "only that of the wrong tokens";
}

// Runs without drafts, because the tests count calls of the model function.
INSTANTIATE_TEST_SUITE_P(Ahead, EngineCancel, testing::ValuesIn(kWithoutDrafts));

}  // namespace
}  // namespace nibble
