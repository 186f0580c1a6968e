// Compares the whole model with golden data of other implementations, and with the reference that rounds keys
// and values as this backend does.
//
// The tolerance is the error of a BF16 cache, the only rounding of the CPU backend besides float32 sums
// (model/golden/golden_tolerance.cpp). Choosing another expert at a near tie of the router is not an error,
// however much it changes the logits. So the top 5 of positions with a router margin below the tolerance is
// not compared. Later positions attend to the keys and values of these positions, so they have a wider limit
// or are not compared.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "backend/cpu/cpu_backend.h"
#include "model/golden/golden.h"
#include "model/quantize.h"
#include "model/weights.h"
#include "reference/rounded_golden.h"
#include "tests/backend/cpu/isas.h"
#include "tests/backend/cpu/options.h"
#include "tests/backend/cpu/q8_0_model.h"
#include "tests/backend/cpu/rounded_reference.h"
#include "tests/backend/feeder.h"
#include "tests/folders.h"
#include "tests/model/fp8_checkpoint.h"

namespace nibble::cpu {
namespace {

const std::filesystem::path kRoot{test::source_path()};
constexpr int kNumPages{600};

std::shared_ptr<const Weights> open(const std::filesystem::path& folder) {
  return std::make_shared<const Weights>(open_weights(kRoot / folder));
}

// Returns |a - b| / |b|.
double relative_l2(std::span<const float> a, std::span<const float> b) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    error += std::pow(double{a[i]} - b[i], 2);
    norm += std::pow(b[i], 2);
  }
  return std::sqrt(error / norm);
}

// Returns the logits [V] of one position, for a sequence that keeps the logits of every position.
std::span<const float> row(const std::vector<float>& logits, size_t index, size_t vocab) {
  return std::span(logits).subspan(index * vocab, vocab);
}

TestOptions options_for_golden(Isa isa, ExpertActivations experts = ExpertActivations::kFloat) {
  return {{.num_pages = kNumPages, .max_batch_tokens = 512, .num_threads = 1},
          {.isa = std::string(name(isa)), .expert_activations = experts}};
}

struct Figures {
  std::string prompt;
  GoldenDifference difference;
  // Difference with the same limits at all positions: no wider limit after a near tie. Only positions with a
  // router margin of at most 1e-2 count as near ties.
  GoldenDifference alike;
  std::vector<int> parted;  // positions of the continuation at which another token is likeliest
};

std::vector<TokenId> with_continuation(const GoldenPrompt& prompt) {
  std::vector<TokenId> ids = prompt.ids;
  if (!prompt.greedy.empty()) ids.insert(ids.end(), prompt.greedy.begin(), prompt.greedy.end() - 1);
  return ids;
}

// Feeds the prompt and its golden continuation. So each token of the continuation is compared, even after a
// token that the backend would not have chosen.
Figures measure(const TestOptions& options, const std::shared_ptr<const Weights>& weights,
                const GoldenPrompt& prompt, const GoldenTolerance& tolerance) {
  const size_t vocab = weights->config.vocab;
  Feeder feeder(make(weights, options), kNumPages);
  feeder.feed_in_chunks(0, with_continuation(prompt), 512);
  const std::span<const float> logits = feeder.logits(0);
  const GoldenAnswer answer{.logits = logits.first(prompt.ids.size() * vocab), .greedy = {}, .hidden = {}};
  GoldenTolerance alike = tolerance;
  alike.top_gap_after_tie = tolerance.top_gap;
  alike.router_margin = alike.tied_margin = std::min(tolerance.router_margin, 1e-2);
  Figures figures{prompt.name, compare(prompt, answer, tolerance), compare(prompt, answer, alike), {}};
  for (size_t i = 0; i < prompt.greedy.size(); ++i) {
    const auto last = logits.subspan((prompt.ids.size() - 1 + i) * vocab, vocab);
    if (std::max_element(last.begin(), last.end()) - last.begin() != prompt.greedy[i])
      figures.parted.push_back(static_cast<int>(i));
  }
  return figures;
}

class GoldenOnCpu : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(, GoldenOnCpu, testing::ValuesIn(isas_of_their_own()), name_of);

TEST_P(GoldenOnCpu, TheMiniatureModelAgrees) {
  const auto weights = open("models/tiny-gpt-oss");
  const GoldenSet golden = read_golden(kRoot / "tests/golden/golden.json");
  ASSERT_EQ(golden.prompts.size(), 23u);
  const GoldenTolerance tolerance = bf16_cache_tolerance(weights->config, golden);
  int num_compared = 0, num_wrong = 0;
  size_t num_parted = 0;
  fmt::print("{:28} {:>12} {:>10} {:>14}  {}\n", "prompt", "logits relL2", "max logit", "top 5 wrong/of",
             "parted at");
  for (const GoldenPrompt& prompt : golden.prompts) {
    const Figures f = measure(options_for_golden(GetParam()), weights, prompt, tolerance);
    const GoldenDifference& d = f.difference;
    fmt::print("{:28} {:12.2e} {:10.2e} {:>14}  {}\n", f.prompt, std::max(d.relative_l2, d.tied_l2),
               d.max_logit, fmt::format("{}/{}", d.num_top_wrong, d.num_top_compared),
               fmt::join(f.parted, ", "));
    EXPECT_TRUE(is_within(d, tolerance)) << f.prompt;
    for (const int i : f.parted)
      // If the gap is this large, a different token is right only if the router chose another expert.
      if (prompt.greedy_gap[i] > tolerance.top_gap) {
        const ReferenceResult reference = rounded_reference(*weights, with_continuation(prompt));
        EXPECT_LT(reference.router_margin[prompt.ids.size() - 1 + i], tolerance.router_margin)
            << f.prompt << ", token " << i;
      }
    num_compared += f.alike.num_top_compared;
    num_wrong += f.alike.num_top_wrong;
    num_parted += f.parted.size();
  }
  // Few comparisons may fail: a different expert at one position changes later positions slightly.
  EXPECT_GT(num_compared, 9000);
  EXPECT_LE(num_wrong, num_compared / 1000);
  EXPECT_LE(num_parted, 8u);  // at most 8 of 23 * 64 positions
}

TEST_P(GoldenOnCpu, TheMiniatureModelAgreesWithInt8ActivationsOfItsExperts) {
  const auto weights = open("models/tiny-gpt-oss");
  const GoldenSet golden = read_golden(kRoot / "tests/golden/golden.json");
  const GoldenTolerance tolerance = int8_tolerance(weights->config, golden, {.experts = true});
  int num_compared = 0, num_alike = 0, num_wrong = 0;
  size_t num_parted = 0;
  for (const GoldenPrompt& prompt : golden.prompts) {
    const Figures f =
        measure(options_for_golden(GetParam(), ExpertActivations::kInt8), weights, prompt, tolerance);
    EXPECT_TRUE(is_within(f.difference, tolerance))
        << f.prompt << ": " << f.difference.relative_l2 << ", of near ties " << f.difference.tied_l2 << ", "
        << f.difference.num_top_wrong << " of " << f.difference.num_top_compared << " of the top 5";
    num_compared += f.difference.num_top_compared;
    num_alike += f.alike.num_top_compared;
    num_wrong += f.alike.num_top_wrong;
    num_parted += f.parted.size();
  }
  EXPECT_GT(num_compared, 1500);
  // `alike` also compares positions whose router margin is between 1e-2 and the tolerance. The router may
  // have chosen another expert there, but few entries are wrong.
  EXPECT_GT(num_alike, 5000);
  EXPECT_LE(num_wrong, num_alike / 100);
  EXPECT_LE(num_parted, 23u * 64 / 50);
}

// In this test the reference makes the golden data and rounds activations where this backend does. Few near
// ties are decided differently, so most top-5 entries are compared, and the logits of every position.
TEST_P(GoldenOnCpu, TheMiniatureModelAgreesWithAReferenceThatRoundsItsActivations) {
  const auto weights = open("models/tiny-gpt-oss");
  const GoldenSet golden = read_golden(kRoot / "tests/golden/golden.json");
  const GoldenTolerance tolerance =
      tolerance_of_both_rounded(int8_tolerance(weights->config, golden, {.experts = true}));
  ThreadPool pool(1);
  int num_places = 0, num_compared = 0;
  for (const GoldenPrompt& prompt : golden.prompts) {
    if (prompt.ids.size() > 100) continue;  // the reference is slow
    Feeder feeder(make(weights, options_for_golden(GetParam(), ExpertActivations::kInt8)), kNumPages);
    feeder.feed_in_chunks(0, prompt.ids, 512);
    const GoldenPrompt rounded =
        reference::rounded_golden(*weights, prompt, {.kv = Format::kBf16, .int8_activations = true}, pool);
    const PositionsDifference difference = compare_positions(rounded, feeder.logits(0), tolerance);
    EXPECT_TRUE(is_within(difference, tolerance))
        << prompt.name << ": " << difference.relative_l2 << ", " << difference.num_other_experts
        << " positions with another expert of at most " << difference.most_other_experts << ", "
        << difference.num_top_wrong << " of " << difference.num_top_compared << " of the top 5";
    num_places += kGoldenTop * static_cast<int>(prompt.ids.size());
    num_compared += difference.num_top_compared;
  }
  EXPECT_GT(num_compared, num_places / 2);
}

// Rounding dense layers to Q8_0 changes the model's weights, so it is compared with the reference on the same
// blocks. Positions where the reference's router is near a tie are not compared.
TEST_P(GoldenOnCpu, AModelOfQ8AgreesWithTheReferenceThatIsGivenTheSameBlocks) {
  const auto weights = with_q8_0_blocks(open("models/tiny-gpt-oss"));
  const GoldenSet golden = read_golden(kRoot / "tests/golden/golden.json");
  const GoldenTolerance tolerance = int8_tolerance(
      weights->config, golden, {.qkv = true, .attention_output = true, .experts = true, .unembedding = true});
  const size_t vocab = weights->config.vocab;
  size_t num_compared = 0;
  for (const GoldenPrompt& prompt : golden.prompts) {
    if (prompt.ids.size() > 100) continue;  // the reference is slow
    Feeder feeder(make(weights, options_for_golden(GetParam(), ExpertActivations::kInt8)), kNumPages);
    feeder.feed_in_chunks(0, prompt.ids, 512);
    const ReferenceResult reference = rounded_reference(*weights, prompt.ids);
    for (size_t t = 0; t < prompt.ids.size(); ++t) {
      if (reference.router_margin[t] <= tolerance.router_margin) continue;
      ++num_compared;
      EXPECT_LE(relative_l2(row(feeder.logits(0), t, vocab), row(reference.logits, t, vocab)),
                tolerance.relative_l2)
          << prompt.name << ", position " << t;
    }
  }
  EXPECT_GE(num_compared, 100u);
}

struct RandomModel {
  explicit RandomModel(const std::string& name)
      : weights(open("tests/golden/random/" + name)),
        golden(read_golden(kRoot / "tests/golden/random" / name / "golden.safetensors")) {}
  std::shared_ptr<const Weights> weights;
  GoldenSet golden;
};

std::vector<float> logits_on_cpu(const TestOptions& options, const std::shared_ptr<const Weights>& weights,
                                 const std::vector<TokenId>& ids) {
  Feeder feeder(make(weights, options), kNumPages);
  feeder.feed({{0, ids}});
  return feeder.logits(0);
}

// Compares the logits of every position, for models of other shapes whose weights are large enough for sinks,
// biases and clamps to matter.
TEST_P(GoldenOnCpu, RandomModelsAgreeUpToTheFirstPositionWithANearTie) {
  size_t num_compared = 0;
  for (const char* name : {"a", "b"}) {
    const RandomModel model(name);
    const size_t vocab = model.weights->config.vocab;
    const GoldenTolerance tolerance = bf16_cache_tolerance(model.weights->config, model.golden);
    for (const GoldenPrompt& prompt : model.golden.prompts) {
      const std::vector<float> logits =
          logits_on_cpu(options_for_golden(GetParam()), model.weights, prompt.ids);
      const std::vector<float> margins = rounded_reference(*model.weights, prompt.ids).router_margin;
      for (size_t t = 0; t < prompt.ids.size() && margins[t] > tolerance.router_margin; ++t, ++num_compared)
        EXPECT_LE(relative_l2(row(logits, t, vocab), row(prompt.logits, t, vocab)), tolerance.relative_l2)
            << name << ", " << prompt.name << ", position " << t;
    }
  }
  EXPECT_GE(num_compared, 30u);
}

void expect_like_reference(const TestOptions& options, const std::shared_ptr<const Weights>& weights,
                           const std::vector<TokenId>& ids, double tolerance) {
  const size_t vocab = weights->config.vocab;
  const std::vector<float> logits = logits_on_cpu(options, weights, ids);
  ThreadPool pool(1);
  const ReferenceResult reference =
      rounded_reference(*quantise_dense(weights, options.dense, pool), ids, {.kv = options.kv_format});
  for (size_t t = 0; t < ids.size(); ++t)
    EXPECT_LE(relative_l2(row(logits, t, vocab), row(reference.logits, t, vocab)), tolerance)
        << weights->source << ", " << ids.size() << " tokens, position " << t;
}

// With the same rounding, backend and reference differ by float32 sums, and by the few keys and values so
// close to the middle of two BF16 numbers that these sums decide the rounding. All roundings together cause
// an error of 9e-3 (model a, 7 tokens, 7,168 keys and values). A single rounding in the other direction is
// 3.5 times the usual error and causes 9e-3 * 3.5 / sqrt(7168) = 4e-4. The bound of 1e-3 allows six such
// roundings (squares add up). Another expert would cause 0.1 or more.
TEST_P(GoldenOnCpu, RandomModelsAgreeAtEveryPositionWithAReferenceThatRoundsKeysAndValues) {
  for (const char* name : {"a", "b"}) {
    const RandomModel model(name);
    for (const GoldenPrompt& prompt : model.golden.prompts) {
      // In longer prompts, more than six keys and values may be rounded in the other direction.
      if (prompt.ids.size() > 50) continue;
      expect_like_reference(options_for_golden(GetParam()), model.weights, prompt.ids, 1e-3);
    }
  }
}

TEST_P(GoldenOnCpu, ConvertedRandomModelsAgreeWithAReferenceThatIsGivenTheSameBytes) {
  constexpr Format kFormats[]{Format::kE4m3, Format::kMxfp4};
  for (const Format format : kFormats)
    for (const char* name : {"a", "b"}) {
      const RandomModel model(name);
      TestOptions options = options_for_golden(GetParam());
      options.dense = {format, format, format};
      for (const GoldenPrompt& prompt : model.golden.prompts)
        if (prompt.ids.size() <= 50) expect_like_reference(options, model.weights, prompt.ids, 1e-3);
    }
}

// A random model's checkpoint whose dense layers a test turns into FP8.
struct Fp8Model {
  explicit Fp8Model(const std::string& name)
      : golden(read_golden(kRoot / "tests/golden/random" / name / "golden.safetensors")) {
    const auto from = kRoot / "tests/golden/random" / name;
    tensors = read_tensors(from);
    config = with_fp8_quantization(read_text_file(from / "config.json"));
    layers = fp8_layers(read_config(from / "config.json").num_layers);
  }
  std::shared_ptr<const Weights> open() const {
    const auto file = folder.path() / "model.safetensors";
    std::filesystem::remove(file);
    write_checkpoint(file, tensors, config);
    return std::make_shared<const Weights>(open_weights(file));
  }

  TestFolder folder;
  GoldenSet golden;
  OwnedTensors tensors;
  std::string config;
  std::vector<std::string> layers;
};

// The reference decodes a code to the product of code and scale in float32. The checkpoint of dequantised
// weights holds the same product, so the reference's logits for both checkpoints have the same bits.
//
// The CPU backend multiplies finished sums by the scale, which only reorders float32 operations: an error of
// about 1e-6, unless a key or value is rounded in the other direction. Its bound is 1e-3, as in
// RandomModelsAgreeAtEveryPosition..., and prompts are about as short as the one from which that is derived.
TEST_P(GoldenOnCpu, AnFp8CheckpointHasTheLogitsOfItsDequantisedWeights) {
  int num_compared = 0;
  for (const char* name : {"a", "b"}) {
    Fp8Model model(name);
    for (const std::string& layer : model.layers)
      make_fp8(model.tensors, layer,
               {.is_per_row = layer.ends_with("o_proj") || layer == "lm_head",
                .dtype = layer.ends_with("k_proj") ? DType::kF32 : DType::kBf16});
    const auto fp8 = model.open();
    for (const std::string& layer : model.layers) undo_fp8(model.tensors, layer);
    const auto wide = model.open();
    ASSERT_EQ(fp8->layers[0].q.format(), Format::kE4m3);
    ASSERT_EQ(wide->layers[0].q.format(), Format::kF32);
    const size_t vocab = fp8->config.vocab;
    for (const GoldenPrompt& prompt : model.golden.prompts) {
      if (prompt.ids.size() > 50) continue;
      const ReferenceResult reference = rounded_reference(*wide, prompt.ids);
      EXPECT_EQ(rounded_reference(*fp8, prompt.ids).logits, reference.logits) << name;
      if (prompt.ids.size() > 12) continue;
      ++num_compared;
      const std::vector<float> logits = logits_on_cpu(options_for_golden(GetParam()), fp8, prompt.ids);
      for (size_t t = 0; t < prompt.ids.size(); ++t)
        EXPECT_LE(relative_l2(row(logits, t, vocab), row(reference.logits, t, vocab)), 1e-3)
            << name << ", " << prompt.ids.size() << " tokens, position " << t;
    }
  }
  EXPECT_EQ(num_compared, 2);
}

// Multiplication by a power of two commutes with every rounding, and BF16 holds the product of a code and
// such a scale. So the kernels of both formats, which add in the same order, give the same bits.
TEST_P(GoldenOnCpu, AnFp8CheckpointWithScalesOfPowersOfTwoEqualsItsValuesInBf16) {
  for (const char* name : {"a", "b"}) {
    Fp8Model model(name);
    for (const std::string& layer : model.layers)
      make_fp8(model.tensors, layer, {.is_per_row = !layer.ends_with("q_proj"), .is_power_of_two = true});
    const auto fp8 = model.open();
    for (const std::string& layer : model.layers) undo_fp8(model.tensors, layer, DType::kBf16);
    const auto bf16 = model.open();
    ASSERT_EQ(fp8->layers[0].q.format(), Format::kE4m3);
    ASSERT_EQ(bf16->layers[0].q.format(), Format::kBf16);
    for (const ExpertActivations experts : {ExpertActivations::kFloat, ExpertActivations::kInt8})
      for (const GoldenPrompt& prompt : model.golden.prompts) {
        const TestOptions options = options_for_golden(GetParam(), experts);
        EXPECT_EQ(logits_on_cpu(options, fp8, prompt.ids), logits_on_cpu(options, bf16, prompt.ids))
            << name << ", " << prompt.ids.size() << " tokens";
      }
  }
}

// A checkpoint with the codes and scales that --fp8-layers computes gives the same bits as --fp8-layers.
TEST_P(GoldenOnCpu, AnFp8CheckpointEqualsTheBf16CheckpointThatIsQuantisedAtLoad) {
  Fp8Model model("a");
  const auto bf16 = open("tests/golden/random/a");
  for (const std::string& layer : model.layers) make_fp8(model.tensors, layer, {.dtype = DType::kF32});
  const auto fp8 = model.open();
  for (const ExpertActivations experts : {ExpertActivations::kFloat, ExpertActivations::kInt8}) {
    const TestOptions as_stored = options_for_golden(GetParam(), experts);
    TestOptions quantised = as_stored;
    quantised.dense = {Format::kE4m3, Format::kE4m3, Format::kE4m3};
    const std::vector<TokenId>& ids = model.golden.prompts.front().ids;
    const std::vector<float> expected = logits_on_cpu(quantised, bf16, ids);
    EXPECT_EQ(logits_on_cpu(as_stored, fp8, ids), expected);
    EXPECT_EQ(logits_on_cpu(quantised, fp8, ids), expected) << "--fp8-layers changes nothing";
  }
}

// E4M3 rounds by 2^-4, BF16 by 2^-9. So an element rounded in the other direction causes 32 times the error,
// 1.3e-2. Such elements are 32 times rarer: none or one occurs here.
TEST_P(GoldenOnCpu, RandomModelsWithFp8KeysAndValuesAgreeWithAReferenceThatRoundsThem) {
  for (const char* name : {"a", "b"}) {
    const RandomModel model(name);
    TestOptions options = options_for_golden(GetParam());
    options.kv_format = Format::kE4m3;
    for (const GoldenPrompt& prompt : model.golden.prompts)
      if (prompt.ids.size() <= 50) expect_like_reference(options, model.weights, prompt.ids, 1.3e-2);
  }
}

}  // namespace
}  // namespace nibble::cpu
