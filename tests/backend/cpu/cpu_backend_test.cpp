// The CPU backend behind the contract: what a token gets depends on its own sequence alone, and what can't be run is said.
#include "backend/cpu/cpu_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "backend/sample.h"
#include "core/error.h"
#include "model/synthetic.h"
#include "tests/backend/cpu/feeder.h"
#include "tests/backend/cpu/isas.h"
#include "tests/ops/shapes.h"

namespace nibble::cpu {
namespace {

const std::filesystem::path kRoot{NIBBLE_SOURCE_DIR};

BackendOptions options_of(Isa isa, int num_threads = 2) {
  return {.num_full_pages = 80,
          .num_sliding_pages = 80,
          .max_batch_tokens = 1024,
          .num_threads = num_threads,
          .isa = std::string(name(isa))};
}

std::shared_ptr<const Weights> open_random(const char* name) {
  return std::make_shared<const Weights>(open_weights(kRoot / "tests/golden/random" / name));
}

// Model a has a window of 16, b one of 100, and its layers the other way round.
class CpuBackendBits : public testing::TestWithParam<std::tuple<Isa, const char*>> {
 protected:
  const Isa isa_ = std::get<0>(GetParam());
  const std::shared_ptr<const Weights> weights_ = open_random(std::get<1>(GetParam()));

  std::vector<TokenId> ids(int count, uint64_t seed) const {
    return random_ids(count, weights_->config.vocab, seed);
  }
  std::vector<float> logits_alone(const std::vector<TokenId>& ids, int num_threads = 2) const {
    Feeder alone(weights_, options_of(isa_, num_threads));
    alone.feed({{0, ids}});
    return alone.logits(0);
  }
};
INSTANTIATE_TEST_SUITE_P(, CpuBackendBits,
                         testing::Combine(testing::ValuesIn(available_isas()), testing::Values("a", "b")),
                         [](const auto& parameter) {
                           return std::string(name(std::get<0>(parameter.param))) + "_" +
                                  std::get<1>(parameter.param);
                         });

TEST_P(CpuBackendBits, AreThoseOfTheSequenceAloneHoweverManyShareTheStep) {
  for (const int num_sequences : shapes::kNumSequences) {
    std::vector<std::vector<TokenId>> prompts;
    std::vector<Feeder::Part> parts;
    for (int s = 0; s < num_sequences; ++s) prompts.push_back(ids(1 + 31 * s % 100, s));
    for (int s = 0; s < num_sequences; ++s) parts.push_back({s, prompts[s]});
    Feeder together(weights_, options_of(isa_));
    together.feed(parts);
    for (int s = 0; s < num_sequences; ++s)
      ASSERT_EQ(together.logits(s), logits_alone(prompts[s])) << "sequence " << s << " of " << num_sequences;
  }
}

TEST_P(CpuBackendBits, AreTheSameHoweverAPromptIsCutIntoChunks) {
  const std::vector<TokenId> prompt = ids(230, 6);
  const std::vector<float> whole = logits_alone(prompt);
  for (const size_t chunk : {1, 7, 32, 129}) {
    Feeder chunked(weights_, options_of(isa_));
    chunked.feed_in_chunks(0, prompt, chunk);
    EXPECT_EQ(chunked.logits(0), whole) << chunk;
  }
}

TEST_P(CpuBackendBits, AreTheSameForDecodeRowsAmongChunksOfAPrompt) {
  const std::vector<TokenId> chat = ids(60, 7), other_chat = ids(90, 8), prompt = ids(200, 9);
  Feeder mixed(weights_, options_of(isa_));
  mixed.feed({{0, std::span(chat).first(50)}, {1, std::span(other_chat).first(80)}});
  for (size_t i = 0; i < 10; ++i)
    mixed.feed({{1, std::span(other_chat).subspan(80 + i, 1)},
                {2, std::span(prompt).subspan(20 * i, 20)},
                {0, std::span(chat).subspan(50 + i, 1)}});
  EXPECT_EQ(mixed.logits(0), logits_alone(chat));
  EXPECT_EQ(mixed.logits(1), logits_alone(other_chat));
  EXPECT_EQ(mixed.logits(2), logits_alone(prompt));
}

TEST_P(CpuBackendBits, AreTheSameRunAfterRunAndForAnyNumberOfThreads) {
  const std::vector<TokenId> prompt = ids(150, 10);
  const std::vector<float> once = logits_alone(prompt);
  EXPECT_EQ(logits_alone(prompt), once);
  for (const int num_threads : {1, 3, 4}) EXPECT_EQ(logits_alone(prompt, num_threads), once) << num_threads;
}

class CpuBackend : public testing::Test {
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

TEST_F(CpuBackend, GivesTheOutputsThatAreAskedForInTheirOrder) {
  const auto backend = make(weights, options_of(Isa::kPortable));
  const int vocab = weights->config.vocab;
  const std::vector<TokenId> ids = random_ids(40, vocab, 10);
  const SampleParams greedy{.logit_bias = {}, .num_logprobs = 2};
  std::vector<OutputRow> outputs;
  for (int t = 0; t < 40; ++t)  // more than one block of output rows; every third is not sampled
    outputs.push_back(
        {.token_index = t, .sample = t % 3 == 2 ? nullptr : &greedy, .prompt = {}, .output = {}});
  const StepResult result = run(*backend, ids, outputs, true);
  ASSERT_EQ(result.outputs.size(), 40u);
  ASSERT_EQ(result.logits.size(), size_t{40} * vocab);
  for (int t = 0; t < 40; ++t) {
    const auto first = result.logits.begin() + t * vocab;
    const auto likeliest = std::max_element(first, first + vocab) - first;
    EXPECT_EQ(result.outputs[t].token, t % 3 == 2 ? -1 : likeliest) << t;
    EXPECT_EQ(result.outputs[t].top.size(), t % 3 == 2 ? 0u : 2u) << t;
  }
  const StepResult without_logits = run(*backend, ids, {outputs[39]}, false);
  EXPECT_TRUE(without_logits.logits.empty());
  EXPECT_EQ(without_logits.outputs[0].token, result.outputs[39].token);
}

// The draw is a function of the seed and of the position of the token drawn.
TEST_F(CpuBackend, DrawsForThePositionAfterTheRow) {
  const auto backend = make(weights, options_of(Isa::kPortable));
  const std::vector<TokenId> ids = random_ids(40, weights->config.vocab, 11);
  const SampleParams flat{
      .temperature = 100, .logit_bias = {}, .seed = 5};  // two positions hardly ever draw the same
  const std::vector<OutputRow> outputs{{.token_index = 39, .sample = &flat, .prompt = {}, .output = {}}};
  const StepResult result = run(*backend, ids, outputs, true);
  std::vector<float> scratch = result.logits;
  EXPECT_EQ(result.outputs[0].token, sample(scratch, outputs[0], 40).token);
  scratch = result.logits;
  EXPECT_NE(result.outputs[0].token, sample(scratch, outputs[0], 39).token);
}

TEST_F(CpuBackend, AnswersAnEmptyBatchWithNothing) {
  const StepResult result = make(weights, options_of(Isa::kPortable))->step({});
  EXPECT_TRUE(result.outputs.empty());
  EXPECT_TRUE(result.logits.empty());
}

TEST_F(CpuBackend, SaysWhichKernelRunsEachOperation) {
  for (const Isa isa : available_isas()) {
    const auto kernels = make(weights, options_of(isa))->kernels();
    const auto experts = std::find_if(kernels.begin(), kernels.end(),
                                      [](const auto& k) { return k.operation == "experts up"; });
    ASSERT_NE(experts, kernels.end());
    EXPECT_EQ(experts->weights, "MXFP4");
    EXPECT_EQ(experts->kernel, std::string(name(isa)) + "::dot_mxfp4");
    EXPECT_FALSE(experts->reason.empty());
  }
}

TEST_F(CpuBackend, TakesTheWidestInstructionSetUnlessToldOtherwise) {
  BackendOptions options = options_of(Isa::kPortable);
  options.isa.clear();
  const auto kernels = make(weights, options)->kernels();
  EXPECT_EQ(kernels.back().kernel, std::string(name(available_isas().back())) + "::dot_bf16");
}

TEST_F(CpuBackend, RefusesAnInstructionSetItDoesNotHaveAndNamesThoseItHas) {
  BackendOptions options = options_of(Isa::kPortable);
  options.isa = "avx9";
  try {
    make(weights, options);
    FAIL() << "took avx9";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("avx9"), testing::HasSubstr("portable")));
  }
}

TEST_F(CpuBackend, RefusesWhatItHasNoKernelFor) {
  Weights changed = *weights;
  changed.layers[1].down.first.format = Format::kF32;
  EXPECT_THROW(make(std::make_shared<const Weights>(changed), options_of(Isa::kPortable)), InputError);
  changed = *weights;
  changed.embedding.format = Format::kMxfp4;
  EXPECT_THROW(make(std::make_shared<const Weights>(changed), options_of(Isa::kPortable)), InputError);
  changed = *weights;
  changed.config.head_dim = 512;
  EXPECT_THROW(make(std::make_shared<const Weights>(changed), options_of(Isa::kPortable)), InputError);
}

// 3 full and 3 sliding layers; a page of a layer is keys and values of 2 heads, 32 positions, 64 elements of 2 bytes.
TEST_F(CpuBackend, PlansItsPagesToTheByteAndNoCopyOfTheWeights) {
  BackendOptions options{
      .num_full_pages = 10, .num_sliding_pages = 4, .max_batch_tokens = 16, .num_threads = 1, .isa = ""};
  const MemoryPlan small = plan(weights->config, options);
  EXPECT_EQ(small.weight_bytes, 0u);
  EXPECT_EQ(small.kv_bytes, size_t{(3 * 10 + 3 * 4) * 2 * 2 * 32 * 64 * 2});
  EXPECT_GT(small.workspace_bytes, 16u * 4096 * 4);  // the logits of 16 rows, at least
  options.max_batch_tokens = 512;
  // Of a row: x, normed [256], q, attended [512], cos, sin [32], logits [16], experts and weights [4], h [4, 128],
  // panels [4, 32]; the logits stay those of 24 rows.
  const size_t row_floats = 256 + 256 + 512 + 512 + 32 + 32 + 16 + 4 + 4 + 4 * 128 + 4 * 32;
  EXPECT_EQ(plan(weights->config, options).workspace_bytes, (512 * row_floats + 24 * 4096) * 4);
}

}  // namespace
}  // namespace nibble::cpu
