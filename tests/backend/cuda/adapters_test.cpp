// Tests adapters that requests choose on CUDA. Needs a GPU, or an emulated GPU.
#include "tests/backend/adapters.h"

#include <algorithm>

#include "backend/cuda/cuda_backend.h"
#include "model/golden/golden.h"
#include "tests/backend/cuda/golden_agreement.h"
#include "tests/backend/cuda/pretended.h"
#include "tests/error_of.h"

namespace nibble::cuda {
namespace {

BackendOptions options_with(std::shared_ptr<const RequestAdapters> adapters) {
  return {.num_pages = Fulfilment::kNumPages, .max_batch_tokens = 1024, .adapters = std::move(adapters)};
}

// As in CudaGolden.RandomModelsAgreeAtTheirFirstPositions, the best quarter of the rows must agree.
AdapterBackend with_adapters() {
  const GoldenSet golden = golden_of("random/a/golden.safetensors");
  return {.name = "cuda",
          .make =
              [](auto weights, auto adapters) {
                return make(std::move(weights), options_with(std::move(adapters)), pretended());
              },
          .rounding = {.kv = Format::kBf16},
          .tolerance = bf16_tolerance(open_shared("tests/golden/random/a")->config, golden).relative_l2,
          .share_of_ties = 0.75};
}
INSTANTIATE_TEST_SUITE_P(Cuda, BackendAdapters, testing::Values(with_adapters()));

class CudaSteps : public testing::Test {
 protected:
  const std::shared_ptr<const Weights> weights_ = open_shared("tests/golden/random/a");
  const std::shared_ptr<const RequestAdapters> adapters_ =
      std::make_shared<const RequestAdapters>(three_adapters(*weights_));
  const std::vector<TokenId> ids_ = random_ids(40, weights_->config.vocab, 4);

  // Returns the number of launches called `name` in a step of two sequences, of 1 and of `count` tokens.
  // `adapter`: the adapter of the first.
  ptrdiff_t num_launches(std::string_view name, size_t count, std::optional<AdapterId> adapter) const {
    const auto backend = make(weights_, options_with(adapters_), pretended());
    const std::vector<PageId> pages{PageId{0}, PageId{1}, PageId{2}, PageId{3}};
    const OutputRow output{.token_index = 0, .prompt = {}, .output = {}};
    const auto run_of = [&](size_t num_tokens, size_t first_page, std::optional<AdapterId> of) {
      return nibble::Run{.tokens = std::span(ids_).first(num_tokens),
                         .first_position = 0,
                         .full = {.pages = std::span(pages).subspan(first_page, 1)},
                         .sliding = {.pages = std::span(pages).subspan(first_page + 1, 1)},
                         .outputs = {&output, 1},
                         .adapter = of};
    };
    const nibble::Run runs[]{run_of(1, 0, adapter), run_of(count, 2, std::nullopt)};
    const std::vector<TimedWork> work = backend->profile({.runs = runs});
    return std::ranges::count_if(work, [&](const TimedWork& each) { return each.name == name; });
  }
};

TEST_F(CudaSteps, LaunchUpdatesOnlyIfARowUsesAnAdapter) {
  for (const size_t count : {1, 2, 14}) {
    EXPECT_EQ(num_launches("shrink", count, std::nullopt), 0);
    EXPECT_EQ(num_launches("expand", count, std::nullopt), 0);
    // q, k and v; o; the router; each in each layer, and lm_head
    const auto expected = 3 * std::ssize(weights_->layers) + 1;
    EXPECT_EQ(num_launches("shrink", count, AdapterId{0}), expected);
    EXPECT_EQ(num_launches("expand", count, AdapterId{0}), expected);
  }
}

TEST_F(CudaSteps, OfPromptsThatNeedNoLogitsTakeAdaptersOfFewRowsToo) {
  const auto logits_of = [&](size_t first_chunk) {
    const auto backend = make(weights_, options_with(adapters_), pretended());
    const std::vector<PageId> pages{PageId{0}, PageId{1}, PageId{2}, PageId{3}};
    const auto run_of = [&](size_t first, size_t num_tokens) {
      return nibble::Run{.tokens = std::span(ids_).subspan(first, num_tokens),
                         .first_position = static_cast<int>(first),
                         .full = {.pages = std::span(pages).first(2)},
                         .sliding = {.pages = std::span(pages).last(2)},
                         .adapter = AdapterId{0}};
    };
    if (first_chunk > 0) {
      const nibble::Run chunk = run_of(0, first_chunk);
      EXPECT_TRUE(backend->step({.runs = {&chunk, 1}}).outputs.empty());
    }
    nibble::Run last = run_of(first_chunk, 6 - first_chunk);
    const OutputRow at_end{.token_index = static_cast<int>(5 - first_chunk), .prompt = {}, .output = {}};
    last.outputs = {&at_end, 1};
    return backend->step({.runs = {&last, 1}, .want_logits = true}).logits;
  };
  for (const size_t first_chunk : {1, 2, 4, 5})
    EXPECT_EQ(logits_of(first_chunk), logits_of(0)) << first_chunk;
}

TEST(CudaAdapters, AreCountedInTheMemoryPlan) {
  const auto weights = open_shared("tests/golden/random/a");
  const auto adapters = std::make_shared<const RequestAdapters>(three_adapters(*weights));
  const MemoryPlan without = plan(weights->config, options_with(nullptr), {}),
                   with = plan(weights->config, options_with(adapters), {});
  EXPECT_GE(with.weight_bytes, without.weight_bytes + num_bytes(*adapters));
  EXPECT_EQ(with.kv_bytes, without.kv_bytes);
  // A x of q, k and v for each row of a step
  EXPECT_GE(
      with.workspace_bytes,
      without.workspace_bytes + size_t{1024} * 3 * static_cast<size_t>(max_rank(*adapters)) * sizeof(float));
}

TEST(CudaAdapters, AreRefusedWithSeveralGpusAndByStepsOfTooFewRows) {
  CudaOptions two;
  two.parts = {1, 1};
  EXPECT_EQ(why_no_adapters({}), "");
  EXPECT_EQ(why_no_adapters(two), "GPUs that share a model do not run adapters of requests");
  const auto weights = open_shared("tests/golden/random/a");
  BackendOptions options = options_with(std::make_shared<const RequestAdapters>(three_adapters(*weights)));
  options.max_batch_tokens = 2;
  EXPECT_EQ(error_of([&] { make(weights, options, pretended()); }),
            "--lora-modules: a step with adapters has at least 3 rows: --max-batch-tokens 2 is too small");
}

}  // namespace
}  // namespace nibble::cuda
