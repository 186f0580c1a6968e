// Compares Backend::trace() of the CUDA backend with that of the reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "model/checkpoint/synthetic.h"
#include "reference/reference_backend.h"
#include "tests/backend/cuda/emulated/four_heads.h"
#include "tests/backend/cuda/pretended.h"
#include "tests/backend/fulfilment.h"

namespace nibble::cuda {
namespace {

std::vector<TracedResult> trace(Backend& backend, const std::vector<TokenId>& tokens) {
  std::vector<PageId> full, sliding;
  for (uint32_t page = 0; page < 8; ++page) full.push_back(PageId{page}), sliding.push_back(PageId{8 + page});
  std::vector<OutputRow> outputs(tokens.size());
  for (size_t row = 0; row < outputs.size(); ++row) outputs[row].token_index = static_cast<int>(row);
  const nibble::Run runs[]{{tokens, 0, {full}, {sliding}, outputs}};
  return backend.trace({.runs = runs, .want_logits = true});
}

// The number of tokens decides the layout of activations, and whether rows share attention's tiles.
class EmulatedTrace : public testing::TestWithParam<int> {};

TEST_P(EmulatedTrace, HasForEachOperationWhatTheReferenceHasWithinTheRoundingsOfBfloat16) {
  const auto weights = std::make_shared<const Weights>(make_synthetic(four_heads(), "four heads"));
  const std::vector<TokenId> tokens = random_ids(GetParam(), weights->config.vocab, 3);
  const std::vector<TracedResult> truth = trace(*reference::make(weights, small_options()), tokens);
  const std::vector<TracedResult> traced = trace(*make(weights, small_options(), pretended()), tokens);

  std::vector<Operation> operations;
  for (const TracedResult& result : traced) {
    operations.push_back(result.operation);
    SCOPED_TRACE(testing::Message() << "layer " << result.layer << " " << name(result.operation));
    const auto same = std::find_if(truth.begin(), truth.end(), [&](const TracedResult& of) {
      return of.layer == result.layer && of.operation == result.operation;
    });
    ASSERT_NE(same, truth.end());
    ASSERT_EQ(result.values.size(), same->values.size());
    double error = 0, norm = 0;
    for (size_t i = 0; i < result.values.size(); ++i) {
      error += std::pow(double{result.values[i]} - double{same->values[i]}, 2);
      norm += std::pow(double{same->values[i]}, 2);
    }
    // The tolerance allows a few roundings to 8 bits (at most 2^-9 each) in two layers. A wrong row, column
    // or term gives an error above 1.
    EXPECT_LT(std::sqrt(error / norm), 0.02);
  }
  EXPECT_THAT(operations, testing::ElementsAre(Operation::kEmbed, Operation::kAttend, Operation::kProject,
                                               Operation::kExpertsUp, Operation::kAttend, Operation::kProject,
                                               Operation::kExpertsUp, Operation::kUnembed));
}
INSTANTIATE_TEST_SUITE_P(Tokens, EmulatedTrace, testing::Values(1, 5, 20, 70),
                         [](const auto& tested) { return std::to_string(tested.param); });

}  // namespace
}  // namespace nibble::cuda
