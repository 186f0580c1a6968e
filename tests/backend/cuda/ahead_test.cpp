// Tests that a CUDA answer has the same bits whether the engine waits for each step or launches one step
// ahead, and that the device's clock gives the times of steps. Needs a GPU: not part of ./test (docs/gpu.md).
#include <gtest/gtest.h>

#include <cstring>

#include "backend/cuda/cuda_backend.h"
#include "engine/engine.h"
#include "tests/backend/cuda/pretended.h"
#include "tests/backend/fulfilment.h"
#include "tests/engine/answers.h"

namespace nibble::cuda {
namespace {

// A backend that does not let the engine launch a step ahead.
class StepByStep : public Backend {
 public:
  explicit StepByStep(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}
  std::string_view name() const override { return backend_->name(); }
  const Config& config() const override { return backend_->config(); }
  std::vector<KernelChoice> kernels() const override { return backend_->kernels(); }
  StepResult step(const Batch& batch) override { return backend_->step(batch); }

 private:
  std::unique_ptr<Backend> backend_;
};

// The parameter is the number of ranks on one GPU: 1 or 2.
class CudaAhead : public testing::TestWithParam<int> {
 protected:
  // The tests submit 40 requests, of which at most 12 run at a time. 70 pages are too few for 12 sequences,
  // so the engine must preempt some; answers_of() checks that it did.
  const EngineOptions options_{
      .num_pages = 70, .max_batch_tokens = 64, .max_sequences = 12, .max_context = 300};
  const std::shared_ptr<const Weights> weights_ = open_shared("models/tiny-gpt-oss");
  const Tokenizer tokenizer_{Tokenizer::open(test::source_path("models/tiny-gpt-oss"))};

  std::unique_ptr<Backend> backend() const {
    BackendOptions options;
    options.num_pages = options_.num_pages;
    options.max_batch_tokens = options_.max_batch_tokens;
    CudaOptions own = pretended();
    own.parts.assign(static_cast<size_t>(GetParam()), 1);
    own.gpus.assign(static_cast<size_t>(GetParam()), 0);
    return make(weights_, options, own);
  }

  std::vector<GenerationRequest> requests() const {
    std::vector<GenerationRequest> all;
    for (int n = 0; n < 40; ++n) {
      GenerationRequest& request = all.emplace_back();
      request.prompt = random_ids(1 + 7 * n % 90, weights_->config.vocab, static_cast<uint64_t>(n));
      request.stop.max_tokens = 30 + 11 * n % 170;
      request.sample.seed = static_cast<uint64_t>(n);
      request.sample.num_logprobs = n % 3 == 0 ? 2 : -1;
      if (n % 2 == 1) request.sample.temperature = 1.5f;
      if (n % 4 == 1) request.sample.repetition_penalty = 1.3f;
      if (n % 4 == 2) request.sample.frequency_penalty = 0.7f;
      if (n % 8 == 3) request.sample.presence_penalty = 1, request.sample.logit_bias = {{7, 3}};
      if (n % 5 == 4) request.stop.tokens = {static_cast<TokenId>(n), 33, 34, 35, 36};
    }
    return all;
  }

  std::vector<Answer> answers_of(Backend& backend) const {
    Engine engine(backend, tokenizer_, options_);
    Answers answers(engine);
    std::vector<RequestId> ids;
    for (GenerationRequest& request : requests()) ids.push_back(engine.submit(std::move(request)));
    std::vector<Answer> all;
    for (const RequestId id : ids) all.push_back(answers.wait_for(id));
    EXPECT_GT(engine.state().counts.num_preemptions, 0u);
    return all;
  }
};

// Steps are launched one after another. By the device's clock, each begins when the previous step has ended.
TEST_P(CudaAhead, StepsBeginAndEndOneAfterAnotherByTheDevicesClock) {
  const std::unique_ptr<Backend> tested = backend();
  const PageId full_page{0}, sliding_page{1};
  const TokenId token{33};
  const SampleParams greedy, drawn{.temperature = 1};
  uint64_t last_end = 0;
  int num_under_way = 0;
  const auto wait = [&] {
    const std::optional<DeviceTimes> times = tested->wait().device_times;
    --num_under_way;
    ASSERT_TRUE(times);
    EXPECT_LE(last_end, times->begin_ns);
    EXPECT_LT(times->begin_ns, times->end_ns);
    EXPECT_LT(times->end_ns - times->begin_ns, uint64_t{10'000'000'000});
    last_end = times->end_ns;
  };
  // The first step of each kind records a graph, and the others replay it.
  for (int n = 0; n < 24; ++n) {
    const OutputRow output{.token_index = 0, .sample = n % 3 == 0 ? &drawn : &greedy};
    const nibble::Run run{.tokens = {&token, 1},
                          .first_position = n,
                          .full = {.pages = {&full_page, 1}},
                          .sliding = {.pages = {&sliding_page, 1}},
                          .outputs = {&output, 1}};
    tested->launch({.runs = {&run, 1}});
    if (++num_under_way == 2) wait();
  }
  wait();
}

INSTANTIATE_TEST_SUITE_P(Ranks, CudaAhead, testing::Values(1, 2), testing::PrintToStringParamName());
TEST_P(CudaAhead, AnswersHaveTheSameBits) {
  const std::unique_ptr<Backend> ahead = backend();
  EXPECT_EQ(ahead->steps_ahead(), 1);
  StepByStep step_by_step(backend());
  const std::vector<Answer> actual = answers_of(*ahead), expected = answers_of(step_by_step);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(actual[i].finished && expected[i].finished) << i;
    EXPECT_EQ(actual[i].finished->reason, expected[i].finished->reason) << i;
    ASSERT_EQ(actual[i].tokens, expected[i].tokens) << i;
    for (size_t n = 0; n < expected[i].sampled.size(); ++n) {
      const SampledToken &a = actual[i].sampled[n], &b = expected[i].sampled[n];
      EXPECT_EQ(std::memcmp(&a.logprob, &b.logprob, sizeof(float)), 0) << i << ", token " << n;
      ASSERT_EQ(a.top.size(), b.top.size());
      for (size_t k = 0; k < a.top.size(); ++k)
        EXPECT_EQ(std::memcmp(&a.top[k], &b.top[k], sizeof(TokenLogprob)), 0) << i << ", token " << n;
    }
  }
}

}  // namespace
}  // namespace nibble::cuda
