// Makes each allocation of an engine fail once. At most one request may fail, the other requests get their
// usual answers, and no pages are held afterwards.
#include <gtest/gtest.h>

#include <vector>

#include "tests/engine/toy_engine.h"
#include "tests/memory/failing_memory.h"

namespace nibble {
namespace {

class EngineMemory : public EngineAnswers {};
INSTANTIATE_TEST_SUITE_P(AllWays, EngineMemory, testing::ValuesIn(kAllWays));

// Returns requests whose prompts share pages; one request wants log-probabilities of its prompt. There is one
// request more than can run at the same time.
std::vector<GenerationRequest> some_requests() {
  std::vector<GenerationRequest> requests;
  const Tokens shared(static_cast<size_t>(kPageTokens) + 3, token_of('a'));
  for (const char* end : {"b", "c", "d"}) requests.push_back(request(shared + tokens_of(end), 12));
  requests.push_back(request(tokens_of("abc"), 20));
  requests.back().prompt_logprobs = 0;
  requests.push_back(request(tokens_of("fed"), 9));
  requests.back().sample = {.temperature = 0.8f, .top_p = 0.9f, .seed = 7};
  return requests;
}

// Runs the requests while the k-th allocation fails. Returns the number of allocations.
int64_t run_with(int64_t k) {
  EngineOptions given = options();
  given.max_sequences = 4;
  Toy toy(toy_logits, given);
  const std::vector<GenerationRequest> requests = some_requests();
  std::vector<RequestId> ids;
  int num_failed = 0;
  int64_t num_allocations = 0;
  {
    const test::FailingMemory memory(k);
    for (const GenerationRequest& asked : requests) ids.push_back(toy.engine.submit(asked));
    for (const RequestId id : ids) toy.answers.wait_for(id);
    num_allocations = memory.num_allocations();
  }
  for (size_t n = 0; n < ids.size(); ++n) {
    const Answer& answer = toy.answers[ids[n]];
    num_failed += answer.failed.has_value();
    if (answer.failed) {
      EXPECT_NE(answer.failed->message.find("out of memory"), std::string::npos) << answer.failed->message;
      continue;
    }
    EXPECT_EQ(answer.tokens, run_alone(requests[n])) << "request " << n << ", allocation " << k;
    EXPECT_EQ(answer.prompt.size(), requests[n].prompt_logprobs < 0 ? 0 : requests[n].prompt.size() - 1);
  }
  EXPECT_LE(num_failed, 1) << "allocation " << k;
  const EngineState state = toy.engine.state();
  EXPECT_EQ(state.num_running + state.num_waiting, 0);
  EXPECT_EQ(state.pages_held.full + state.pages_held.sliding, 0);
  EXPECT_EQ(state.lost, "");
  const GenerationRequest later = request(tokens_of("abcabc"), 8);
  EXPECT_EQ(toy.ask(later).tokens, run_alone(later)) << "after allocation " << k;
  return num_allocations;
}

TEST_P(EngineMemory, OneAllocationThatFailsEndsAtMostOneRequest) {
  test::spare_this_thread();
  const int64_t num_allocations = run_with(0);
  EXPECT_GT(num_allocations, 100);
  const int64_t step = std::max<int64_t>(1, num_allocations / 500);
  for (int64_t k = 1; k <= num_allocations && !HasFailure(); k += step) run_with(k);
}

}  // namespace
}  // namespace nibble
