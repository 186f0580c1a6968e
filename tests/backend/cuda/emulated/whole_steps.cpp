// Whole steps of the backend on the emulated GPU: that it gives what is asked for, and checks, moves and drafts trees of drafts. The tests of
// tests/backend/cuda hold it to much more, and take an hour here.
#include <gtest/gtest.h>

#include "backend/cuda/cuda_backend.h"
#include "tests/backend/contract.h"
#include "tests/backend/cuda/pretended.h"
#include "tests/backend/draft_golden.h"

namespace nibble::cuda {
namespace {

INSTANTIATE_TEST_SUITE_P(Emulated, BackendOutputs,
                         testing::Values(Fulfilment{"bf16", [](auto weights) {
                                                      BackendOptions options;
                                                      options.num_full_pages = options.num_sliding_pages =
                                                          kPagesOfRounds;
                                                      options.max_batch_tokens = 64;
                                                      options.num_threads = 1;
                                                      CudaOptions own = pretended();
                                                      own.has_graphs = false;
                                                      return make(weights, options, own);
                                                    }}));

TEST(EmulatedSteps, DraftBehindATreeAsBehindAPrompt) {
  const auto make_backend = [] {
    BackendOptions options;
    options.num_full_pages = options.num_sliding_pages = kPagesOfRounds;
    options.max_batch_tokens = 64;
    options.num_threads = 1;
    options.draft_head = open_golden_head(kHeadGoldens[0]);
    CudaOptions own = pretended();
    own.has_graphs = false;  // this GPU has none
    return make(model_of_heads(), options, own);
  };
  const HeadGoldenData golden(kHeadGoldens[0]);
  int num_others_right = 0;
  expect_drafts_behind_trees_as_behind_prompts(*make_backend(), *make_backend(),
                                               golden.tensor<int32_t>(golden.prompts().front() + ".ids"), 12,
                                               3, 2, kPagesOfRounds, num_others_right);
  EXPECT_GT(num_others_right, 0);
}

}  // namespace
}  // namespace nibble::cuda
