// Tests requests that choose adapters on real backends: an answer has the same bits alone and among requests
// of other adapters, with and without a prefix cache and drafts.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "engine/engine.h"
#include "model/weights.h"
#include "reference/reference_backend.h"
#include "speculative/drafters.h"
#include "tests/backend/feeder.h"
#include "tests/backend/random_adapters.h"
#include "tests/engine/answers.h"
#include "tests/folders.h"

namespace nibble {
namespace {

struct AdapterCase {
  const char* name;
  std::unique_ptr<Backend> (*make)(std::shared_ptr<const Weights>, const BackendOptions&);
};

class AdaptersOnBackend : public testing::TestWithParam<AdapterCase> {
 protected:
  const std::shared_ptr<const Weights> weights_ =
      std::make_shared<const Weights>(open_weights(test::source_path("models/tiny-gpt-oss")));
  const std::shared_ptr<const RequestAdapters> adapters_ =
      std::make_shared<const RequestAdapters>(three_adapters(*weights_));
  const Tokenizer tokenizer_{Tokenizer::open(test::source_path("models/tiny-gpt-oss"))};

  // Submits all requests together.
  std::vector<Answer> serve(const std::vector<GenerationRequest>& requests,
                            const EngineOptions& options) const {
    BackendOptions of_backend{.num_pages = options.num_pages,
                              .max_batch_tokens = options.max_batch_tokens,
                              .num_threads = 1,
                              .adapters = adapters_};
    if (!options.speculation.draft_head.empty())
      of_backend.draft_head = open_draft_head(options.speculation.draft_head, weights_->config);
    const std::unique_ptr<Backend> backend = GetParam().make(weights_, of_backend);
    Engine engine(*backend, tokenizer_, options);
    Answers answers(engine);
    std::vector<RequestId> ids;
    for (const GenerationRequest& request : requests) ids.push_back(engine.submit(request));
    std::vector<Answer> all;
    for (const RequestId id : ids) all.push_back(answers.wait_for(id));
    return all;
  }
  static EngineOptions options() {
    return {.num_pages = 60, .max_batch_tokens = 50, .max_sequences = 6, .max_context = 400};
  }
  // The prompts have the first 64 tokens in common, and repeat them, so that drafts are copied from the text.
  std::vector<GenerationRequest> requests() const {
    std::vector<GenerationRequest> all;
    for (uint64_t n = 0; n < 8; ++n) {
      GenerationRequest& request = all.emplace_back();
      request.prompt = random_ids(32, 3000, 1);
      for (int i = 0; i < 32; ++i) request.prompt.push_back(request.prompt[static_cast<size_t>(i)]);
      for (const TokenId token : random_ids(5, 3000, n / 4)) request.prompt.push_back(token);
      request.sample.num_logprobs = 2;
      request.stop.max_tokens = 20;
      if (n % 4 < 3) request.adapter = static_cast<AdapterId>(n % 4);
    }
    return all;
  }
  static void expect_same_bits(const std::vector<Answer>& a, const std::vector<Answer>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_TRUE(a[i].finished && b[i].finished);
      ASSERT_EQ(a[i].tokens, b[i].tokens) << "request " << i;
      for (size_t n = 0; n < a[i].sampled.size(); ++n)
        EXPECT_EQ(a[i].sampled[n].logprob, b[i].sampled[n].logprob) << "request " << i << ", token " << n;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, AdaptersOnBackend,
                         testing::Values(AdapterCase{"reference", &reference::make},
                                         AdapterCase{"cpu",
                                                     [](std::shared_ptr<const Weights> weights,
                                                        const BackendOptions& options) {
                                                       return cpu::make(std::move(weights), options, {});
                                                     }}),
                         [](const auto& backend) { return backend.param.name; });

TEST_P(AdaptersOnBackend, AnAnswerHasTheSameBitsAloneAndAmongRequestsOfOtherAdapters) {
  const std::vector<GenerationRequest> all = requests();
  std::vector<Answer> alone;
  for (const GenerationRequest& request : all) alone.push_back(serve({request}, options()).front());
  for (size_t n = 0; n < 3; ++n)
    EXPECT_NE(alone[n].sampled[0].logprob, alone[3].sampled[0].logprob)
        << "adapter " << n << " has no effect";
  expect_same_bits(serve(all, options()), alone);
  EngineOptions uncached = options();
  uncached.prefix_cache = false;
  expect_same_bits(serve(all, uncached), alone);
}

TEST_P(AdaptersOnBackend, DraftsFromTheTextOrOfAHeadChangeNoAnswer) {
  const std::vector<Answer> plain = serve(requests(), options());
  for (const std::string_view drafter : {std::string_view("ngram"), speculative::kHeadDrafter}) {
    EngineOptions drafting = options();
    for (const speculative::DrafterRow& row : speculative::drafter_table())
      if (row.name == drafter) drafting.speculation.drafters.emplace_back(row.make);
    ASSERT_EQ(drafting.speculation.drafters.size(), 1u);
    drafting.speculation.by_cost = false;
    drafting.speculation.ngram = {.least = 2, .most = 8};
    if (drafter == speculative::kHeadDrafter)
      drafting.speculation.draft_head = test::source_path("models/tiny-gpt-oss-eagle3/specforge");
    const std::vector<Answer> drafted = serve(requests(), drafting);
    expect_same_bits(drafted, plain);
    uint64_t num_drafted = 0;
    for (const Answer& answer : drafted) num_drafted += answer.finished->drafts.num_tokens;
    EXPECT_GT(num_drafted, 20u) << drafter;
  }
}

}  // namespace
}  // namespace nibble
