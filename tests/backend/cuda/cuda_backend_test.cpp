// Tests the CUDA backend against the backend contract and golden data. Needs a GPU (docs/gpu.md); ./test runs
// a few of these tests on an emulated GPU.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/chip/device.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "backend/cuda/kernel_table.h"
#include "model/checkpoint/synthetic.h"
#include "model/golden/golden.h"
#include "tests/backend/contract.h"
#include "tests/backend/cuda/golden_agreement.h"
#include "tests/backend/cuda/pretended.h"
#include "tests/error_of.h"
#include "tests/folders.h"

namespace nibble::cuda {
namespace {

BackendOptions options_of(int num_pages) {
  BackendOptions options;
  options.num_pages = num_pages;
  options.max_batch_tokens = 1024;
  return options;
}

// Returns every format of dense layers and of the KV cache that has kernels.
std::vector<Fulfilment> of_each_format() {
  constexpr DenseFormats kFp8{Format::kE4m3, Format::kE4m3, Format::kE4m3},
      kMxfp4{Format::kMxfp4, Format::kMxfp4, Format::kMxfp4};
  const auto with = [](const char* formats, const DenseFormats& dense, Format kv) {
    BackendOptions options = options_of(Fulfilment::kNumPages);
    options.dense = dense;
    options.kv_format = kv;
    return Fulfilment{formats, [options](auto weights) { return make(weights, options, pretended()); }};
  };
  return {with("bf16", {}, Format::kBf16), with("fp8", kFp8, Format::kE4m3),
          with("mxfp4", kMxfp4, Format::kBf16)};
}
INSTANTIATE_TEST_SUITE_P(Cuda, BackendBits,
                         testing::Combine(testing::ValuesIn(of_each_format()), testing::Values("a", "b")),
                         [](const auto& parameter) {
                           return std::get<0>(parameter.param).name + "_" + std::get<1>(parameter.param);
                         });
INSTANTIATE_TEST_SUITE_P(Cuda, BackendOutputs, testing::ValuesIn(of_each_format()),
                         [](const auto& parameter) { return parameter.param.name; });

// A few steps that together use every feature of a step, small enough for compute-sanitizer.
class CudaFewSteps : public testing::TestWithParam<Fulfilment> {};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaFewSteps, testing::ValuesIn(of_each_format()),
                         [](const auto& parameter) { return parameter.param.name; });
TEST_P(CudaFewSteps, PrefillDecodeAndBothTogether) {
  const auto weights = open_shared("tests/golden/random/b");
  const std::vector<TokenId> ids = random_ids(330, weights->config.vocab, 1);
  const auto feed_all = [&] {
    Feeder feeder(GetParam().make(weights), Fulfilment::kNumPages);
    feeder.feed({{0, std::span(ids).first(300)}, {1, std::span(ids).first(17)}});
    feeder.feed({{0, std::span(ids).subspan(300, 1)}, {1, std::span(ids).subspan(17, 1)}});
    feeder.feed({{1, std::span(ids).subspan(18, 9)}, {0, std::span(ids).subspan(301, 1)}});
    feeder.feed({{0, std::span(ids).subspan(302, 1)}});
    return feeder.logits(0);
  };
  EXPECT_EQ(feed_all(), feed_all());
}

// The shared-memory budget decides on warps, ring sizes and columns per pass, but changes no bit of the
// results. The model has the widths of gpt-oss, because narrow models get the same shapes in every budget.
TEST(CudaBudgets, GiveTheSameBits) {
  Config config = *named_config("gpt-oss-20b");
  config.num_layers = 2;
  config.layer_kinds.resize(2);
  config.vocab = 4096;
  const auto weights = std::make_shared<const Weights>(make_synthetic(config, "two layers of gpt-oss-20b"));
  const std::vector<TokenId> ids = random_ids(330, weights->config.vocab, 4);
  const auto logits_in = [&](int budget) {
    CudaOptions own = pretended();
    own.shared_budget = budget;
    Feeder feeder(make(weights, options_of(Fulfilment::kNumPages), own), Fulfilment::kNumPages);
    feeder.feed({{0, std::span(ids).first(300)}, {1, std::span(ids).first(9)}});
    for (size_t i = 0; i < 6; ++i)
      feeder.feed({{0, std::span(ids).subspan(300 + i, 1)}, {1, std::span(ids).subspan(9 + i, 1)}});
    feeder.feed({{0, std::span(ids).subspan(306, 1)}});
    std::vector<float> logits = feeder.logits(0);
    const std::vector<float> others = feeder.logits(1);
    logits.insert(logits.end(), others.begin(), others.end());
    return logits;
  };
  std::vector<std::vector<float>> by_budget;
  for (const Budget budget : kBudgets)
    if (budget <= *largest_budget(device_caps().shared_bytes))
      by_budget.push_back(logits_in(kilobytes(budget)));
  for (const std::vector<float>& logits : by_budget) EXPECT_EQ(logits, by_budget.front());
}

// Decode steps of one shape share one graph, or two: steps with only greedy rows have their own graph.
// Whatever the sampling parameters, the tokens are those that the host chooses from the same logits.
TEST(CudaGraphs, ServeWhateverParametersTheRowsHaveAndAreCounted) {
  const auto weights = open_shared("models/tiny-gpt-oss");
  const std::unique_ptr<Backend> backend = make(weights, options_of(Fulfilment::kNumPages), pretended());
  const std::vector<TokenId> tokens = random_ids(20, weights->config.vocab, 2);
  const std::vector<SampleParams> asked{
      {},
      {.temperature = 1, .logit_bias = {}, .seed = 3},
      {.repetition_penalty = 1e6f, .logit_bias = {}, .num_logprobs = 3},
      {.temperature = 2, .top_k = 5, .top_p = 0.9f, .min_p = 0.01f, .logit_bias = {}},
      {.temperature = 1.5f, .presence_penalty = 2, .logit_bias = {{7, 100}}, .num_logprobs = 0},
  };
  const std::vector<PageId> pages[]{{PageId{0}}, {PageId{1}}};
  const auto num_steps = [&](size_t counter) { return backend->counters().at(counter).value; };
  for (int position = 0; position < 20; ++position) {
    const auto i = static_cast<size_t>(position);
    const bool is_greedy = position >= 17;  // a step with only greedy rows has its own graph
    const std::vector<TokenId> last{tokens[i]};
    const OutputRow outputs[]{
        {.sample = &asked[is_greedy ? 0 : i % asked.size()], .prompt = tokens, .output = last},
        {.sample = &asked[is_greedy ? 0 : (i * i + 1) % asked.size()], .prompt = last, .output = tokens}};
    std::vector<nibble::Run> runs;
    for (size_t s = 0; s < 2; ++s)
      runs.push_back({last, position, {pages[s]}, {pages[s]}, std::span(outputs).subspan(s, 1)});
    const StepResult result = backend->step({.runs = runs, .want_logits = true});
    const auto vocab = static_cast<size_t>(weights->config.vocab);
    ASSERT_EQ(result.outputs.size(), 2u);
    ASSERT_EQ(result.logits.size(), 2 * vocab);
    for (size_t s = 0; s < 2; ++s) {
      std::vector<float> logits(vocab);
      std::copy_n(result.logits.begin() + static_cast<ptrdiff_t>(s * vocab), vocab, logits.begin());
      const SampledToken host = nibble::sample(logits, outputs[s], position + 1);
      EXPECT_EQ(result.outputs[s].token, host.token) << position << ", row " << s;
      EXPECT_NEAR(result.outputs[s].logprob, host.logprob, 1e-5) << position << ", row " << s;
      EXPECT_EQ(result.outputs[s].top.size(), host.top.size()) << position << ", row " << s;
    }
  }
  EXPECT_EQ(num_steps(0), 18u);
  EXPECT_EQ(num_steps(1), 2u);
  EXPECT_EQ(num_steps(2), 0u);
  const nibble::Run prompt[]{{tokens, 0, {pages[0]}, {pages[0]}, {}}};
  backend->step({.runs = prompt});
  EXPECT_EQ(num_steps(2), 1u);
}

// The same kernels are launched with and without a graph. In a graph, a step of 9 sequences has three spare
// rows, whose logits are not returned.
TEST(CudaGraphs, ChangeNoBitWhereTheyAreTurnedOff) {
  const auto weights = open_shared("tests/golden/random/b");
  const std::vector<TokenId> ids = random_ids(40, weights->config.vocab, 6);
  const auto logits_of = [&](bool has_graphs) {
    CudaOptions own = pretended();
    own.has_graphs = has_graphs;
    std::unique_ptr<Backend> made = make(weights, options_of(Fulfilment::kNumPages), own);
    const Backend& backend = *made;
    Feeder feeder(std::move(made), Fulfilment::kNumPages);
    for (size_t step = 0; step < 3; ++step) {
      std::vector<Feeder::Part> parts;
      for (int s = 0; s < 9; ++s)
        parts.push_back({s, std::span(ids).subspan(3 * static_cast<size_t>(s) + step, 1)});
      feeder.feed(parts);
    }
    const std::vector<Counter> counts = backend.counters();
    EXPECT_EQ(counts.at(0).value, has_graphs ? 2u : 0u);
    EXPECT_EQ(counts.at(1).value, has_graphs ? 1u : 0u);
    EXPECT_EQ(counts.at(2).value, has_graphs ? 0u : 3u);
    std::vector<float> logits;
    for (int s = 0; s < 9; ++s) logits.insert(logits.end(), feeder.logits(s).begin(), feeder.logits(s).end());
    return logits;
  };
  EXPECT_EQ(logits_of(true), logits_of(false));
}

TEST(CudaGraphs, CountTheLaunchesOfEachReplay) {
  const auto weights = open_shared("tests/golden/random/b");
  const std::vector<TokenId> ids = random_ids(4, weights->config.vocab, 6);
  const auto launches_of = [&](bool has_graphs) {
    CudaOptions own = pretended();
    own.has_graphs = has_graphs;
    std::unique_ptr<Backend> made = make(weights, options_of(Fulfilment::kNumPages), own);
    const Backend& backend = *made;
    Feeder feeder(std::move(made), Fulfilment::kNumPages);
    feeder.feed_in_chunks(0, ids, 1);
    std::map<std::string_view, size_t> counts;
    for (const KernelLaunches& of : backend.launches()) counts[of.kernel] = of.count;
    return counts;
  };
  EXPECT_EQ(launches_of(true), launches_of(false));
}

// A step of 9 sequences runs in a graph of 12 rows.
TEST(CudaGraphs, HaveSpareRowsThatChangeNoBit) {
  const auto weights = open_shared("tests/golden/random/b");
  const std::vector<TokenId> ids = random_ids(200, weights->config.vocab, 9);
  // Feeds three tokens of a sequence in the first step, then one per step.
  const auto part_of = [&](int sequence, int step) {
    const auto first = static_cast<size_t>(sequence) + (step == 0 ? 0 : 2 + static_cast<size_t>(step));
    return Feeder::Part{sequence, std::span(ids).subspan(first, step == 0 ? 3 : 1)};
  };
  const auto feeder = [&] {
    return Feeder(make(weights, options_of(Fulfilment::kNumPages), pretended()), Fulfilment::kNumPages);
  };
  std::vector<std::vector<float>> alone;
  for (int s = 0; s < 64; ++s) {
    Feeder single = feeder();
    for (int step = 0; step < 4; ++step) {
      Feeder::Part part = part_of(s, step);
      part.sequence = 0;
      single.feed({part});
    }
    alone.emplace_back(single.logits(0).begin(), single.logits(0).end());
  }
  for (const int num_sequences : {9, 13, 19, 33, 50, 64}) {
    Feeder together = feeder();
    for (int step = 0; step < 4; ++step) {
      std::vector<Feeder::Part> parts;
      for (int s = 0; s < num_sequences; ++s) parts.push_back(part_of(s, step));
      together.feed(parts);
    }
    for (int s = 0; s < num_sequences; ++s)
      EXPECT_TRUE(std::ranges::equal(together.logits(s), alone[static_cast<size_t>(s)]))
          << "sequence " << s << " of " << num_sequences;
  }
}

TEST(CudaUpload, ReportsRisingBytesUpToAllOfTheWeights) {
  const auto weights = open_shared("models/tiny-gpt-oss");
  BackendOptions options = options_of(Fulfilment::kNumPages);
  std::vector<size_t> reports;
  const size_t all = plan(weights->config, options, pretended()).weight_bytes;
  options.report_upload = [&](size_t done, size_t total) {
    EXPECT_EQ(total, all);
    reports.push_back(done);
  };
  make(weights, options, pretended());
  EXPECT_TRUE(std::is_sorted(reports.begin(), reports.end()));
  EXPECT_GT(reports.size(), weights->layers.size());
  EXPECT_EQ(reports.front(), 0u);
  EXPECT_EQ(reports.back(), all);
}

TEST(CudaGolden, TheMiniatureModelAgreesWhetherFedAtOnceOrTokenByToken) {
  expect_golden_agreement(pretended());
}

// In a random model the router of some layer sooner or later chooses another expert, and then all later rows
// differ. So only the best quarter of the positions must be within the tolerance.
TEST(CudaGolden, RandomModelsAgreeAtTheirFirstPositions) {
  for (const char* name : {"a", "b"}) {
    const auto weights = open_shared(std::filesystem::path("tests/golden/random") / name);
    const GoldenSet golden = golden_of((std::string("random/") + name + "/golden.safetensors").c_str());
    const GoldenTolerance tolerance = bf16_tolerance(weights->config, golden);
    const auto vocab = static_cast<size_t>(weights->config.vocab);
    for (const GoldenPrompt& prompt : golden.prompts) {
      Feeder feeder(make(weights, options_of(Fulfilment::kNumPages), pretended()), Fulfilment::kNumPages);
      feeder.feed({{0, prompt.ids}});
      std::vector<double> errors;
      for (size_t t = 0; t < prompt.ids.size(); ++t) {
        double error = 0, norm = 0;
        for (size_t i = t * vocab; i < (t + 1) * vocab; ++i) {
          error += std::pow(double{feeder.logits(0)[i]} - prompt.logits[i], 2);
          norm += std::pow(double{prompt.logits[i]}, 2);
        }
        errors.push_back(std::sqrt(error / norm));
      }
      fmt::print("{}: {:.1e}\n", prompt.name, fmt::join(errors, " "));
      std::sort(errors.begin(), errors.end());
      EXPECT_LE(errors[errors.size() / 4], tolerance.relative_l2) << prompt.name;
    }
  }
}

Feeder feeder_with(std::shared_ptr<const Weights> weights, std::optional<BlockFormat> prompt_activations,
                   const DenseFormats& dense = {}) {
  CudaOptions own = pretended();
  own.prompt_activations = prompt_activations;
  BackendOptions options = options_of(Fulfilment::kNumPages);
  options.dense = dense;
  return {make(std::move(weights), options, own), Fulfilment::kNumPages};
}
constexpr DenseFormats kAllMxfp4{Format::kMxfp4, Format::kMxfp4, Format::kMxfp4};

// Chunks of up to 16 tokens run on the decode kernels, whose results differ in their last bits.
TEST(CudaPromptActivations, GiveTheSameBitsInChunksOfMoreThanSixteenTokens) {
  const auto weights = open_shared("tests/golden/random/b");
  const std::vector<TokenId> ids = random_ids(300, weights->config.vocab, 4);
  for (const BlockFormat format : kBlockFormats) {
    Feeder whole = feeder_with(weights, format), chunked = feeder_with(weights, format),
           beside = feeder_with(weights, format);
    whole.feed({{0, ids}});
    chunked.feed_in_chunks(0, ids, 60);
    beside.feed({{1, std::span(ids).first(33)}, {0, ids}});
    EXPECT_EQ(chunked.logits(0), whole.logits(0)) << name(format_of(format));
    EXPECT_EQ(beside.logits(0), whole.logits(0)) << name(format_of(format));
  }
}

TEST(CudaPromptActivations, OfDenseLayersInMxfp4GiveTheSameBitsInChunksOfMoreThanSixteenTokens) {
  const auto weights = open_shared("tests/golden/random/b");
  const std::vector<TokenId> ids = random_ids(90, weights->config.vocab, 4);
  for (const BlockFormat format : kBlockFormats) {
    Feeder whole = feeder_with(weights, format, kAllMxfp4), chunked = feeder_with(weights, format, kAllMxfp4);
    whole.feed({{0, ids}});
    chunked.feed_in_chunks(0, ids, 45);
    EXPECT_EQ(chunked.logits(0), whole.logits(0)) << name(format_of(format));
  }
}

// Returns the relative distance of logits from the logits with bfloat16 activations: the first quartile of
// the distances at all positions. At positions with a larger distance, a router may have chosen another
// expert.
double distance_from_bf16(const std::shared_ptr<const Weights>& weights, BlockFormat format,
                          int num_tokens = 300, const DenseFormats& dense = {}) {
  const std::vector<TokenId> ids = random_ids(num_tokens, weights->config.vocab, 5);
  const auto vocab = static_cast<size_t>(weights->config.vocab);
  Feeder plain = feeder_with(weights, {}, dense), blocks = feeder_with(weights, format, dense);
  plain.feed({{0, ids}});
  blocks.feed({{0, ids}});
  std::vector<double> distances;
  for (size_t first = 0; first < ids.size() * vocab; first += vocab) {
    double error = 0, norm = 0;
    for (size_t i = first; i < first + vocab; ++i) {
      error += std::pow(double{blocks.logits(0)[i]} - double{plain.logits(0)[i]}, 2);
      norm += std::pow(double{plain.logits(0)[i]}, 2);
    }
    distances.push_back(std::sqrt(error / norm));
  }
  std::sort(distances.begin(), distances.end());
  return distances[distances.size() / 4];
}

// With two terms per number, results differ from those in bfloat16 only by the order of additions, which
// changes few roundings.
TEST(CudaPromptActivations, AreAsFarFromBfloat16AsTheirFormat) {
  const auto weights = open_shared("models/tiny-gpt-oss");
  const GoldenSet golden = golden_of("golden.json");
  const double two_terms = distance_from_bf16(weights, BlockFormat::kMxfp8x2),
               mxfp8 = distance_from_bf16(weights, BlockFormat::kMxfp8),
               mxfp4 = distance_from_bf16(weights, BlockFormat::kMxfp4);
  fmt::print("distance from bf16: mxfp8x2 {:.1e}, mxfp8 {:.1e}, mxfp4 {:.1e}\n", two_terms, mxfp8, mxfp4);
  EXPECT_LE(two_terms, bf16_tolerance(weights->config, golden).relative_l2 / 4);
  EXPECT_LE(mxfp8, block_scaled_tolerance(weights->config, golden, kMxfp8Error).relative_l2);
  EXPECT_LE(mxfp4, block_scaled_tolerance(weights->config, golden, kMxfp4Error).relative_l2);
  EXPECT_LT(two_terms, mxfp8);
  EXPECT_LT(mxfp8, mxfp4);
}

TEST(CudaPromptActivations, InTwoTermsAreTheBfloat16ModelInDenseLayersToo) {
  const auto weights = open_shared("models/tiny-gpt-oss");
  const double two_terms = distance_from_bf16(weights, BlockFormat::kMxfp8x2, 80, kAllMxfp4),
               one_term = distance_from_bf16(weights, BlockFormat::kMxfp8, 80, kAllMxfp4);
  fmt::print("distance from bf16: mxfp8x2 {:.1e}, mxfp8 {:.1e}\n", two_terms, one_term);
  EXPECT_LE(two_terms, bf16_tolerance(weights->config, golden_of("golden.json")).relative_l2 / 4);
  EXPECT_LT(two_terms, one_term);
}

}  // namespace
}  // namespace nibble::cuda
