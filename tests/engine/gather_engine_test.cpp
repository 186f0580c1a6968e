// Tests on the toy model which requests share a step when no answer is in progress. No test depends on
// timing: the engine may wait for an hour or not at all. A test in which it waits wrongly never ends.
#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <vector>

#include "tests/engine/toy_engine.h"
#include "tests/wait_until.h"

namespace nibble {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::SizeIs;

class EngineGather : public EngineAnswers {};

// The engine may wait an hour, although the toy model's steps are short.
constexpr GatherOptions kAnHour{.at_most = std::chrono::hours(1), .share_of_step = 1e12};
constexpr GatherOptions kNever{.at_most = std::chrono::seconds(0)};

EngineOptions gathering(const GatherOptions& given, int max_sequences) {
  EngineOptions result = options();
  result.gathering = given;
  result.max_sequences = max_sequences;
  return result;
}

// Records the number of sequences of each step. If `first_launch` is set, the first launch blocks until the
// test releases it.
struct NotingBackend : ToyBackend {
  using ToyBackend::ToyBackend;
  void launch(const Batch& batch) override {
    if (first_launch && num_sequences.empty()) {
      first_launch->arrived.release();
      first_launch->passed.acquire();
    }
    num_sequences.push_back(batch.runs.size());
    ToyBackend::launch(batch);
  }
  std::vector<size_t> num_sequences{};  // read only after the engine is destroyed
  Gate* first_launch{nullptr};
};

// Submits a request. Returns when the engine has taken it and waits for more requests, or is about to wait.
RequestId submit_and_wait_until_taken(Engine& engine, const GenerationRequest& asked) {
  const int num_before = engine.state().num_waiting;
  const RequestId id = engine.submit(asked);
  test::wait_until([&] { return engine.state().num_waiting != num_before; });
  return id;
}

TEST_P(EngineGather, RequestsThatComeOneAfterTheOtherRunInOneStep) {
  const EngineOptions given = gathering(kAnHour, 3);
  NotingBackend backend(given, toy_logits, steps_ahead);
  {
    Engine engine(backend, tokenizer(), given);
    Answers answers(engine);
    // In the second round the engine expects the number of requests of the first.
    for (int round = 0; round < 2; ++round) {
      std::vector<RequestId> asked;
      for (int n = 0; n < 2; ++n)
        asked.push_back(submit_and_wait_until_taken(engine, request(Tokens(3, 3 * round + n), 4)));
      asked.push_back(engine.submit(request(Tokens(3, 3 * round + 2), 4)));
      for (const RequestId id : asked) answers.wait_for(id);
    }
  }
  // 8 steps of 3 sequences: four tokens in each of two rounds
  EXPECT_THAT(backend.num_sequences, testing::AllOf(SizeIs(8), Each(3)));
}

// The second request arrives before the last step of the first answer is launched, the third while this step
// runs.
TEST_P(EngineGather, RequestsThatComeWhileTheLastStepOfAnAnswerRunsAreRunInOne) {
  const EngineOptions given = gathering(kNever, 8);
  Gate launch, model;
  NotingBackend backend(given, model.model(), steps_ahead);
  backend.first_launch = &launch;
  {
    Engine engine(backend, tokenizer(), given);
    Answers answers(engine);
    engine.submit(request({1}, 1));
    launch.arrived.acquire();
    const RequestId second = engine.submit(request({2}, 1));
    launch.passed.release();
    model.arrived.acquire();
    const RequestId third = engine.submit(request({3}, 1));
    model.passed.release(3);
    answers.wait_for(second);
    answers.wait_for(third);
  }
  EXPECT_THAT(backend.num_sequences, ElementsAre(1, 2));
}

TEST_P(EngineGather, ARunningAnswerWaitsForNoRequest) {
  Gate gate;
  Toy toy(gate.model(), gathering(kAnHour, 2));
  const RequestId is_long = toy.engine.submit(request({1}, 40));
  const RequestId is_short = toy.engine.submit(request({2}, 1));
  gate.passed.release(2);
  toy.answers.wait_for(is_short);
  // From here on each request comes alone, although two came together before.
  const RequestId joins = toy.engine.submit(request({3}, 4));
  gate.passed.release(39 + 4);
  EXPECT_EQ(toy.answers.wait_for(joins).tokens.size(), 4u);
  EXPECT_EQ(toy.answers.wait_for(is_long).tokens.size(), 40u);
}

TEST_P(EngineGather, ARequestThatWaitsForOthersCanBeCancelled) {
  Toy toy(toy_logits, gathering(kAnHour, 8));
  const RequestId id = submit_and_wait_until_taken(toy.engine, request({1}, 4));
  toy.engine.cancel(id);
  EXPECT_EQ(toy.answers.wait_for(id).finished.value().reason, FinishReason::kCancelled);
  EXPECT_EQ(toy.backend.num_steps(), 0);
}

TEST_P(EngineGather, AnEngineThatWaitsForRequestsCanBeDestroyed) {
  const EngineOptions given = gathering(kAnHour, 8);
  ToyBackend backend(given, toy_logits, steps_ahead);
  std::optional<Engine> engine(std::in_place, backend, tokenizer(), given);
  submit_and_wait_until_taken(*engine, request({1}, 4));
  engine.reset();
  EXPECT_EQ(backend.num_steps(), 0);
}

TEST_P(EngineGather, WaitsForTheNumberOfRequestsThatCameTogetherLastTime) {
  const EngineOptions given = gathering(kAnHour, 8);
  Gate gate;
  NotingBackend backend(given, gate.model(), steps_ahead);
  {
    Engine engine(backend, tokenizer(), given);
    Answers answers(engine);
    const RequestId alone = submit_and_wait_until_taken(engine, request({1}, 5));
    engine.cancel(alone);
    answers.wait_for(alone);
    // The last request came alone, so the engine does not wait for more.
    const RequestId first = engine.submit(request({2}, 5));
    gate.arrived.acquire();
    // These two requests come too late for the step of the first request. An engine that expects three
    // requests would have waited.
    const RequestId second = engine.submit(request({3}, 1)), third = engine.submit(request({4}, 1));
    gate.passed.release(5 + 1 + 1);
    for (const RequestId id : {first, second, third}) answers.wait_for(id);
    EXPECT_EQ(answers[first].tokens.size(), 5u);
    gate.passed.release(3);
    std::vector<RequestId> together;
    for (int n = 0; n < 3; ++n) together.push_back(engine.submit(request({5 + n}, 1)));
    for (const RequestId id : together) answers.wait_for(id);
  }
  EXPECT_EQ(backend.num_sequences.front(), 1u);
  EXPECT_EQ(backend.num_sequences.back(), 3u);
}

INSTANTIATE_TEST_SUITE_P(Ahead, EngineGather, testing::ValuesIn(kWithoutDrafts));

}  // namespace
}  // namespace nibble
