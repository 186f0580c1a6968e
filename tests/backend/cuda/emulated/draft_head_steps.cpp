// Runs steps with a draft head on the emulated GPU: steps that verify drafts, move their keys and values, and
// draft trees. The tests of tests/backend/cuda check heads more thoroughly, but would take an hour here.
#include <gtest/gtest.h>

#include "backend/cuda/cuda_backend.h"
#include "tests/backend/cuda/pretended.h"
#include "tests/backend/draft_golden.h"

namespace nibble::cuda {
namespace {

TEST(EmulatedSteps, DraftAfterATreeAsAfterAPrompt) {
  const auto make_backend = [] {
    BackendOptions options;
    options.num_pages = kPagesOfRounds;
    options.max_batch_tokens = 64;
    options.num_threads = 1;
    options.draft_head = open_golden_head(kHeadGoldens[0]);
    return make(model_of_heads(), options, pretended());
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
