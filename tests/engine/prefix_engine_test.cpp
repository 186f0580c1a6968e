// Tests shared pages on real backends with the bundled checkpoint. Answers have the same bits whether a
// prompt was cached, shared pages with another, or was preempted and run again.
#include <gtest/gtest.h>

#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "core/numbers/random.h"
#include "engine/engine.h"
#include "model/weights.h"
#include "reference/reference_backend.h"
#include "tests/engine/answers.h"
#include "tests/folders.h"

namespace nibble {
namespace {

using Tokens = std::vector<TokenId>;

struct BackendCase {
  const char* name;
  std::unique_ptr<Backend> (*make)(std::shared_ptr<const Weights>, const BackendOptions&);
};

class PrefixOnBackend : public testing::TestWithParam<BackendCase> {
 protected:
  static const std::shared_ptr<const Weights>& weights() {
    static const auto tiny =
        std::make_shared<const Weights>(open_weights(test::source_path("models/tiny-gpt-oss")));
    return tiny;
  }
  static Tokens tokens(uint64_t seed, int count) {
    Tokens drawn;
    for (int n = 0; n < count; ++n)
      drawn.push_back(static_cast<TokenId>(random_bits(seed, static_cast<uint64_t>(n)) % 3000));
    return drawn;
  }

  struct Served {
    std::vector<Answer> answers;
    SchedulerCounts counts;
  };
  // Runs waves of requests: submits all requests of a wave together, after the previous wave has ended.
  Served serve(const std::vector<std::vector<GenerationRequest>>& waves, bool prefix_cache,
               int num_pages) const {
    const EngineOptions options{.num_pages = num_pages,
                                .max_batch_tokens = 50,
                                .max_sequences = 6,
                                .max_context = 400,
                                .prefix_cache = prefix_cache};
    const std::unique_ptr<Backend> backend = GetParam().make(
        weights(),
        {.num_pages = options.num_pages, .max_batch_tokens = options.max_batch_tokens, .num_threads = 1});
    Engine engine(*backend, tokenizer_, options);
    Answers answers(engine);
    Served served;
    for (const std::vector<GenerationRequest>& wave : waves) {
      std::vector<RequestId> ids;
      for (const GenerationRequest& request : wave) ids.push_back(engine.submit(request));
      for (const RequestId id : ids) served.answers.push_back(answers.wait_for(id));
    }
    served.counts = engine.state().counts;
    return served;
  }
  static void expect_same_bits(const Served& a, const Served& b) {
    ASSERT_EQ(a.answers.size(), b.answers.size());
    for (size_t i = 0; i < a.answers.size(); ++i) {
      const Answer &x = a.answers[i], &y = b.answers[i];
      ASSERT_TRUE(x.finished && y.finished);
      ASSERT_EQ(x.tokens, y.tokens) << "request " << i;
      EXPECT_EQ(x.text, y.text);
      for (size_t n = 0; n < x.sampled.size(); ++n) {
        EXPECT_EQ(std::memcmp(&x.sampled[n].logprob, &y.sampled[n].logprob, sizeof(float)), 0);
        for (size_t k = 0; k < x.sampled[n].top.size(); ++k)
          EXPECT_EQ(std::memcmp(&x.sampled[n].top[k], &y.sampled[n].top[k], sizeof(TokenLogprob)), 0);
      }
    }
  }
  static GenerationRequest request(Tokens prompt, int max_tokens) {
    GenerationRequest asked;
    asked.prompt = std::move(prompt);
    asked.sample = {.temperature = 0.8f, .seed = 5, .num_logprobs = 5};
    asked.stop.max_tokens = max_tokens;
    return asked;
  }

  const Tokenizer tokenizer_{Tokenizer::open(test::source_path("models/tiny-gpt-oss"))};
};

// The prompts' common prefix ends just before, at and just after the end of a page and of the window of 128.
TEST_P(PrefixOnBackend, AHitChangesNoBit) {
  const Tokens base = tokens(1, 200);
  std::vector<std::vector<GenerationRequest>> waves{{request(base, 12)}, {}};
  for (const int num_shared : {31, 64, 65, 127, 129, 160, 193, 200}) {
    Tokens prompt(base.begin(), base.begin() + num_shared);
    const Tokens rest = tokens(static_cast<uint64_t>(num_shared), 9);
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    waves.back().push_back(request(std::move(prompt), 8));
  }
  waves.push_back({request(base, 12)});
  const Served with = serve(waves, true, 100), without = serve(waves, false, 100);
  expect_same_bits(with, without);
  const int expected[] = {0, 0, 64, 64, 96, 128, 160, 192, 192, 192};
  for (size_t i = 0; i < with.answers.size(); ++i) {
    EXPECT_EQ(with.answers[i].finished->num_cached_tokens, expected[i]) << "request " << i;
    EXPECT_EQ(without.answers[i].finished->num_cached_tokens, 0);
  }
}

TEST_P(PrefixOnBackend, BeingPutAsideChangesNoBit) {
  std::vector<std::vector<GenerationRequest>> waves(1);
  for (uint64_t n = 0; n < 4; ++n) waves[0].push_back(request(tokens(n, 50), 60));
  const Served roomy = serve(waves, false, 100);
  EXPECT_EQ(roomy.counts.num_preemptions, 0u);
  for (const bool prefix_cache : {true, false}) {
    const Served narrow =
        serve(waves, prefix_cache, 18);  // each sequence needs 4 pages of each kind at its end
    EXPECT_GT(narrow.counts.num_preemptions, 0u);
    expect_same_bits(narrow, roomy);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, PrefixOnBackend,
                         testing::Values(BackendCase{"Reference", reference::make},
                                         BackendCase{"Cpu",
                                                     [](auto weights, const BackendOptions& options) {
                                                       return cpu::make(std::move(weights), options);
                                                     }}),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace nibble
