// Tests the reference as a backend.
#include "reference/reference_backend.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/errors/error.h"
#include "tests/backend/contract.h"

namespace nibble::reference {
namespace {

BackendOptions options_of(int num_threads) {
  return {.num_pages = Fulfilment::kNumPages, .max_batch_tokens = 1024, .num_threads = num_threads};
}

const Fulfilment kReference{"reference", [](auto weights) { return make(weights, options_of(0)); }};
INSTANTIATE_TEST_SUITE_P(Reference, BackendBits,
                         testing::Combine(testing::Values(kReference), testing::Values("a", "b")),
                         [](const auto& parameter) { return std::string(std::get<1>(parameter.param)); });
INSTANTIATE_TEST_SUITE_P(Reference, BackendOutputs, testing::Values(kReference));

class ReferenceBackendTest : public testing::Test {
 protected:
  static inline const std::shared_ptr<const Weights> weights = open_shared("models/tiny-gpt-oss");
};

TEST_F(ReferenceBackendTest, AnyNumberOfThreadsGivesTheSameBits) {
  const std::vector<TokenId> ids = random_ids(40, weights->config.vocab, 12);
  std::vector<std::vector<float>> logits;
  for (const int num_threads : {1, 3}) {
    Feeder feeder(make(weights, options_of(num_threads)), Fulfilment::kNumPages);
    feeder.feed({{0, ids}});
    logits.push_back(feeder.logits(0));
  }
  EXPECT_EQ(logits[0], logits[1]);
}

TEST_F(ReferenceBackendTest, GivesUpAStepThatIsNotNeededAndRunsTheNextOneLikeAnyOther) {
  const auto make_backend = [&] { return make(weights, options_of(0)); };
  expect_to_give_up_an_unneeded_step(*make_backend(), *make_backend(), Fulfilment::kNumPages);
}

TEST_F(ReferenceBackendTest, SaysThatEveryOperationIsPlainLoops) {
  const std::vector<KernelChoice> kernels = make(weights, options_of(0))->kernels();
  const auto experts = std::find_if(kernels.begin(), kernels.end(),
                                    [](const auto& k) { return k.operation == Operation::kExpertsUp; });
  ASSERT_NE(experts, kernels.end());
  EXPECT_EQ(experts->weights, name(Format::kMxfp4));
  for (const KernelChoice& kernel : kernels)
    EXPECT_EQ(kernel.kernel, "plain loops") << nibble::name(kernel.operation);
}

TEST_F(ReferenceBackendTest, RunsDenseLayersInTheRequestedFormatsAndSaysSo) {
  BackendOptions options = options_of(0);
  options.dense.qkv = Format::kE4m3;
  const auto backend = make(weights, options);
  const std::vector<KernelChoice> kernels = backend->kernels();
  const auto qkv = std::find_if(kernels.begin(), kernels.end(),
                                [](const auto& k) { return k.operation == Operation::kQkv; });
  ASSERT_NE(qkv, kernels.end());
  EXPECT_EQ(qkv->weights, "FP8");
  EXPECT_EQ(plan(weights->config, options).weight_bytes, 6u * 768 * (256 + 4));  // qkv [768, 256] of 6 layers
}

TEST_F(ReferenceBackendTest, RefusesACacheThatIsNotItsOwn) {
  BackendOptions options = options_of(0);
  options.kv_format = Format::kE4m3;
  EXPECT_THROW(make(weights, options), InputError);
  EXPECT_THROW(plan(weights->config, options), InputError);
}

// The model has 3 full and 3 sliding layers. A layer's page holds keys and values of 2 heads, 32 positions,
// 64 elements of 4 bytes.
TEST_F(ReferenceBackendTest, PlansItsPagesToTheByteAndNoCopyOfTheWeights) {
  const MemoryPlan planned = plan(weights->config, {.num_pages = 14, .max_batch_tokens = 16});
  EXPECT_EQ(planned.weight_bytes, 0u);
  EXPECT_EQ(planned.kv_bytes, size_t{(3 * 10 + 3 * 4) * 2 * 2 * 32 * 64 * 4});
  EXPECT_GT(planned.workspace_bytes, 16u * 4096 * 4);  // at least the logits of 16 rows
}

}  // namespace
}  // namespace nibble::reference
