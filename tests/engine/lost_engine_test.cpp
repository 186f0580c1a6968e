// Tests an engine whose backend is lost, or fails in every step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/engine/toy_engine.h"
#include "tests/wait_until.h"

namespace nibble {
namespace {

using testing::HasSubstr;

class LostEngine : public EngineAnswers {
 protected:
  // Fails if the context begins with X or Y; the backend is lost if it begins with Z.
  static std::vector<float> model(std::span<const TokenId> context) {
    if (context.front() == token_of('X')) throw std::runtime_error("a link is down");
    if (context.front() == token_of('Y')) throw std::runtime_error("a graph could not be made");
    if (context.front() == token_of('Z')) throw BackendLost("the GPU is lost");
    return toy_logits(context);
  }
  static std::string failure_of(Toy& toy, std::string_view prompt) {
    const Answer& answer = toy.ask(request(tokens_of(prompt), 5));
    return answer.failed ? answer.failed->message : "";
  }
};
INSTANTIATE_TEST_SUITE_P(WithoutDrafts, LostEngine, testing::ValuesIn(kWithoutDrafts));

TEST_P(LostEngine, FailsAllRequestsAndThoseThatCome) {
  Gate gate;
  EngineOptions given = options();
  given.max_sequences = 2;
  bool is_first = true;
  Toy toy(
      [&](std::span<const TokenId> context) {
        if (std::exchange(is_first, false)) gate.model()(context);
        return model(context);
      },
      given);
  std::vector<RequestId> ids{toy.engine.submit(request(tokens_of("Zbc"), 5))};
  gate.arrived.acquire();
  for (int n = 0; n < 5; ++n) ids.push_back(toy.engine.submit(request(tokens_of("abd"), 5)));
  gate.passed.release();
  for (const RequestId id : ids) {
    const Answer& answer = toy.answers.wait_for(id);
    ASSERT_TRUE(answer.failed);
    EXPECT_THAT(answer.failed->message, HasSubstr("the GPU is lost"));
    EXPECT_FALSE(answer.failed->is_requests_own);
  }
  EXPECT_THAT(failure_of(toy, "abc"), HasSubstr("the GPU is lost"));
  const EngineState state = toy.engine.state();
  EXPECT_EQ(state.lost, "the model can't be run any more: the GPU is lost");
  EXPECT_EQ(state.num_running + state.num_waiting, 0);
  EXPECT_EQ(state.pages_held.full + state.pages_held.sliding, 0);
}

TEST_P(LostEngine, IsLostAfterTheSameFaultInThreeStepsInARow) {
  Toy toy(model);
  for (int n = 0; n < 2; ++n) {
    EXPECT_THAT(failure_of(toy, "X"), HasSubstr("a link is down"));
    EXPECT_EQ(toy.engine.state().lost, "");
  }
  EXPECT_THAT(failure_of(toy, "X"), HasSubstr("a link is down"));
  EXPECT_THAT(failure_of(toy, "abc"), HasSubstr("3 steps in a row failed: a link is down"));
}

TEST_P(LostEngine, GoesOnWhereFaultsDifferOrAStepIsRunBetween) {
  Toy toy(model);
  for (const char* prompt : {"X", "X", "Y", "X", "X"}) EXPECT_NE(failure_of(toy, prompt), "");
  EXPECT_EQ(failure_of(toy, "abc"), "");
  EXPECT_NE(failure_of(toy, "X"), "");
  const GenerationRequest asked = request(tokens_of("abc"), 5);
  EXPECT_EQ(toy.ask(asked).tokens, run_alone(asked));
  EXPECT_EQ(toy.engine.state().lost, "");
}

TEST_P(LostEngine, CountsNoTimeWithoutWork) {
  Toy toy;
  EXPECT_EQ(toy.engine.state().progress.seconds, 0);
  toy.ask(request(tokens_of("abc"), 5));
  test::wait_until([&] { return toy.engine.state().progress.seconds == 0; });
}

}  // namespace
}  // namespace nibble
