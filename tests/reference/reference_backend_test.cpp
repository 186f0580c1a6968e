// The reference behind the contract of a backend: what a token gets does not depend on what shares the step with it.
#include "reference/reference_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "backend/sample.h"
#include "core/random.h"
#include "kv/page_pool.h"
#include "kv/page_table.h"
#include "model/weights.h"

namespace nibble::reference {
namespace {

const std::filesystem::path kRoot{NIBBLE_SOURCE_DIR};

const BackendOptions kOptions{
    .num_full_pages = 40, .num_sliding_pages = 40, .max_batch_tokens = 400, .isa = {}};

std::vector<TokenId> random_ids(int count, int vocab, uint64_t seed) {
  std::vector<TokenId> ids;
  for (int i = 0; i < count; ++i)
    ids.push_back(
        static_cast<TokenId>(random_bits(seed, static_cast<uint64_t>(i)) % static_cast<uint64_t>(vocab)));
  return ids;
}

// A backend, its pages, and sequences that are fed to it bit by bit; keeps the logits of every position.
class Feeder {
 public:
  explicit Feeder(std::shared_ptr<const Weights> weights)
      : backend_(make(std::move(weights), kOptions)),
        full_(kOptions.num_full_pages),
        sliding_(kOptions.num_sliding_pages) {}

  struct Part {
    int sequence;
    std::span<const TokenId> tokens;
  };
  // One step over the parts, each the next tokens of its sequence.
  void feed(const std::vector<Part>& parts) {
    std::vector<std::vector<OutputRow>> outputs(parts.size());
    std::vector<Run> runs;
    for (size_t p = 0; p < parts.size(); ++p) {
      while (std::ssize(sequences_) <= parts[p].sequence) {
        sequences_.emplace_back(full_, sliding_, backend_->config().window);
        logits_.emplace_back();
      }
      SequencePages& pages = sequences_[parts[p].sequence];
      ASSERT_TRUE(pages.reserve(static_cast<int>(parts[p].tokens.size())));
      for (int i = 0; i < std::ssize(parts[p].tokens); ++i)
        outputs[p].push_back({.token_index = i, .prompt = {}, .output = {}});
      runs.push_back({parts[p].tokens, pages.length(), pages.full(), pages.sliding(), outputs[p]});
    }
    const StepResult result = backend_->step({.runs = runs, .want_logits = true});
    auto next = result.logits.begin();
    for (const Part& part : parts) {
      const auto count = std::ssize(part.tokens) * backend_->config().vocab;
      logits_[part.sequence].insert(logits_[part.sequence].end(), next, next + count);
      next += count;
      sequences_[part.sequence].advance(static_cast<int>(part.tokens.size()));
    }
    ASSERT_EQ(next, result.logits.end());
  }
  const std::vector<float>& logits(int sequence) const { return logits_[sequence]; }

 private:
  std::unique_ptr<Backend> backend_;
  PagePool full_, sliding_;
  std::vector<SequencePages> sequences_;
  std::vector<std::vector<float>> logits_;
};

class ReferenceBackendOnRandomModels : public testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<const Weights> weights_ =
      std::make_shared<const Weights>(open_weights(kRoot / "tests/golden/random" / GetParam()));
  std::vector<TokenId> ids(int count, uint64_t seed) const {
    return random_ids(count, weights_->config.vocab, seed);
  }
  std::vector<float> logits_alone(const std::vector<TokenId>& ids) const {
    Feeder alone(weights_);
    alone.feed({{0, ids}});
    return alone.logits(0);
  }
};
INSTANTIATE_TEST_SUITE_P(, ReferenceBackendOnRandomModels, testing::Values("a", "b"),
                         [](const auto& parameter) { return std::string(parameter.param); });

TEST_P(ReferenceBackendOnRandomModels, SequencesInOneCallGetTheBitsTheyGetAlone) {
  const std::vector<std::vector<TokenId>> prompts{ids(1, 1), ids(31, 2), ids(32, 3), ids(33, 4), ids(130, 5)};
  Feeder together(weights_);
  together.feed({{0, prompts[0]}, {1, prompts[1]}, {2, prompts[2]}, {3, prompts[3]}, {4, prompts[4]}});
  for (int s = 0; s < 5; ++s) EXPECT_EQ(together.logits(s), logits_alone(prompts[s])) << s;
}

TEST_P(ReferenceBackendOnRandomModels, ChunksOfAPromptGetTheBitsOfTheWhole) {
  const std::vector<TokenId> prompt = ids(230, 6);
  const std::vector<float> whole = logits_alone(prompt);
  for (const size_t chunk : {1, 7, 32, 129}) {
    Feeder chunked(weights_);
    for (size_t first = 0; first < prompt.size(); first += chunk)
      chunked.feed({{0, std::span(prompt).subspan(first, std::min(chunk, prompt.size() - first))}});
    EXPECT_EQ(chunked.logits(0), whole) << chunk;
  }
}

TEST_P(ReferenceBackendOnRandomModels, DecodeRowsAmongChunksOfAPromptKeepTheirBits) {
  const std::vector<TokenId> chat = ids(60, 7), other_chat = ids(90, 8), prompt = ids(200, 9);
  Feeder mixed(weights_);
  mixed.feed({{0, std::span(chat).first(50)}, {1, std::span(other_chat).first(80)}});
  for (size_t i = 0; i < 10; ++i)
    mixed.feed({{1, std::span(other_chat).subspan(80 + i, 1)},
                {2, std::span(prompt).subspan(20 * i, 20)},
                {0, std::span(chat).subspan(50 + i, 1)}});
  EXPECT_EQ(mixed.logits(0), logits_alone(chat));
  EXPECT_EQ(mixed.logits(1), logits_alone(other_chat));
  EXPECT_EQ(mixed.logits(2), logits_alone(prompt));
}

class ReferenceBackendOfTheMiniatureModel : public testing::Test {
 protected:
  static inline const std::shared_ptr<const Weights> weights =
      std::make_shared<const Weights>(open_weights(kRoot / "models/tiny-gpt-oss"));
  // One run of `ids` from position 0, in the first pages.
  static StepResult run(Backend& backend, const std::vector<TokenId>& ids,
                        const std::vector<OutputRow>& outputs, bool want_logits) {
    const std::vector<PageId> pages{PageId{0}, PageId{1}};
    const nibble::Run runs[]{{ids, 0, {pages}, {pages}, outputs}};
    return backend.step({.runs = runs, .want_logits = want_logits});
  }
};

TEST_F(ReferenceBackendOfTheMiniatureModel, GivesTheOutputsThatAreAskedForInTheirOrder) {
  const auto backend = make(weights, kOptions);
  const std::vector<TokenId> ids = random_ids(40, weights->config.vocab, 10);
  const SampleParams greedy{.num_logprobs = 2};
  const std::vector<OutputRow> outputs{{.token_index = 3, .sample = &greedy, .prompt = {}, .output = {}},
                                       {.token_index = 7, .prompt = {}, .output = {}},
                                       {.token_index = 39, .sample = &greedy, .prompt = {}, .output = {}}};
  const StepResult result = run(*backend, ids, outputs, true);
  ASSERT_EQ(result.outputs.size(), 3u);
  ASSERT_EQ(result.logits.size(), 3u * weights->config.vocab);
  for (const int row : {0, 2}) {
    const auto first = result.logits.begin() + row * weights->config.vocab;
    const auto likeliest = std::max_element(first, first + weights->config.vocab) - first;
    EXPECT_EQ(result.outputs[row].token, likeliest) << row;
    ASSERT_EQ(result.outputs[row].top.size(), 2u) << row;
    EXPECT_EQ(result.outputs[row].top[0].token, likeliest) << row;
  }
  EXPECT_EQ(result.outputs[1].token, -1);  // no token was asked for there

  const StepResult without_logits = run(*backend, ids, outputs, false);
  EXPECT_TRUE(without_logits.logits.empty());
  EXPECT_EQ(without_logits.outputs[2].token, result.outputs[2].token);
}

// The draw is a function of the seed and of the position of the token drawn.
TEST_F(ReferenceBackendOfTheMiniatureModel, DrawsForThePositionAfterTheRow) {
  const auto backend = make(weights, kOptions);
  const std::vector<TokenId> ids = random_ids(40, weights->config.vocab, 11);
  const SampleParams flat{.temperature = 100,
                          .seed = 5};  // about uniform: two positions hardly ever draw the same
  const std::vector<OutputRow> outputs{{.token_index = 39, .sample = &flat, .prompt = {}, .output = {}}};
  StepResult result = run(*backend, ids, outputs, true);
  const std::vector<float> logits = result.logits;
  std::vector<float> scratch = logits;
  EXPECT_EQ(result.outputs[0].token, sample(scratch, outputs[0], 40).token);
  scratch = logits;
  EXPECT_NE(result.outputs[0].token, sample(scratch, outputs[0], 39).token);
}

TEST_F(ReferenceBackendOfTheMiniatureModel, AnyNumberOfThreadsGivesTheSameBits) {
  const std::vector<TokenId> ids = random_ids(40, weights->config.vocab, 12);
  const std::vector<OutputRow> outputs{{.token_index = 39, .prompt = {}, .output = {}}};
  BackendOptions options = kOptions;
  options.num_threads = 1;
  const auto one = make(weights, options);
  options.num_threads = 3;
  const auto three = make(weights, options);
  EXPECT_EQ(run(*one, ids, outputs, true).logits, run(*three, ids, outputs, true).logits);
}

TEST_F(ReferenceBackendOfTheMiniatureModel, AnswersAnEmptyBatchWithNothing) {
  const StepResult result = make(weights, kOptions)->step({});
  EXPECT_TRUE(result.outputs.empty());
  EXPECT_TRUE(result.logits.empty());
}

TEST_F(ReferenceBackendOfTheMiniatureModel, SaysThatEveryOperationIsPlainLoops) {
  const std::vector<KernelChoice> kernels = make(weights, kOptions)->kernels();
  const auto experts =
      std::find_if(kernels.begin(), kernels.end(), [](const auto& k) { return k.operation == "experts"; });
  ASSERT_NE(experts, kernels.end());
  EXPECT_EQ(experts->weights, name(Format::kMxfp4));
  for (const KernelChoice& kernel : kernels) EXPECT_EQ(kernel.kernel, "plain loops") << kernel.operation;
}

// 3 full and 3 sliding layers; a page of a layer is keys and values of 2 heads, 32 positions, 64 elements of 4 bytes.
TEST_F(ReferenceBackendOfTheMiniatureModel, PlansItsPagesToTheByteAndNoCopyOfTheWeights) {
  const MemoryPlan planned = plan(
      weights->config, {.num_full_pages = 10, .num_sliding_pages = 4, .max_batch_tokens = 16, .isa = {}});
  EXPECT_EQ(planned.weight_bytes, 0u);
  EXPECT_EQ(planned.kv_bytes, size_t{(3 * 10 + 3 * 4) * 2 * 2 * 32 * 64 * 4});
  EXPECT_GT(planned.workspace_bytes, 16u * 4096 * 4);  // the logits of 16 rows, at least
}

}  // namespace
}  // namespace nibble::reference
