// Tests the CPU backend against the backend contract with each instruction set, and its errors for models
// that it cannot run.
#include "backend/cpu/cpu_backend.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/errors/error.h"
#include "core/system/clock.h"
#include "model/convert_blocks.h"
#include "tests/backend/contract.h"
#include "tests/backend/cpu/converted_experts.h"
#include "tests/backend/cpu/isas.h"
#include "tests/backend/cpu/options.h"
#include "tests/backend/cpu/q8_0_model.h"
#include "tests/backend/cpu/rounded_reference.h"
#include "tests/error_of.h"

namespace nibble::cpu {
namespace {

TestOptions options_of(Isa isa, int num_threads = 2) {
  return {{.num_pages = Fulfilment::kNumPages, .max_batch_tokens = 1024, .num_threads = num_threads},
          {.isa = std::string(name(isa))}};
}

Fulfilment fulfilment(Isa isa, const std::string& name, const DenseFormats& dense, Format kv,
                      ExpertActivations experts = ExpertActivations::kFloat) {
  TestOptions options = options_of(isa);
  options.cpu.expert_activations = experts;
  options.dense = dense;
  options.kv_format = kv;
  return {std::string(cpu::name(isa)) + name, [options](auto weights) { return make(weights, options); }};
}
struct ExpertsCase {
  const char* name;
  Format format;
  ExpertActivations activations;  // type of activations of the layers that can take either type
};
constexpr ExpertsCase kExperts[]{{"_experts_bf16", Format::kBf16, ExpertActivations::kFloat},
                                 {"_experts_bf16_int8", Format::kBf16, ExpertActivations::kInt8},
                                 {"_experts_fp8", Format::kE4m3, ExpertActivations::kFloat},
                                 {"_experts_q8_0_int8", Format::kQ8_0, ExpertActivations::kInt8}};
std::vector<Fulfilment> of_each_isa() {
  std::vector<Fulfilment> all;
  for (const Isa isa : isas_of_their_own()) {
    all.push_back(fulfilment(isa, "_float", {}, Format::kBf16));
    all.push_back(fulfilment(isa, "_int8", {}, Format::kBf16, ExpertActivations::kInt8));
    const Fulfilment with_int8 = all.back();
    all.push_back({with_int8.name + "_q8_0",
                   [with_int8](auto weights) { return with_int8.make(with_q8_0_blocks(weights)); }});
  }
  return all;
}
// Returns backends that together cover every format of experts, dense layers and the KV cache.
std::vector<Fulfilment> of_each_isa_converted() {
  std::vector<Fulfilment> all;
  for (const Isa isa : isas_of_their_own()) {
    const Format fp8 = Format::kE4m3, mxfp4 = Format::kMxfp4;
    all.push_back(fulfilment(isa, "_fp8_mxfp4_fp8_kv_fp8", {fp8, mxfp4, fp8}, fp8));
    all.push_back(fulfilment(isa, "_mxfp4_fp8_mxfp4_kv_fp8", {mxfp4, fp8, mxfp4}, fp8));
    for (const auto& [name, experts, activations] : kExperts) {
      const Fulfilment plain = fulfilment(isa, name, {}, Format::kBf16, activations);
      all.push_back({plain.name, [plain, format = experts](auto weights) {
                       return plain.make(with_experts(weights, format));
                     }});
    }
  }
  return all;
}
std::string bits_name(const testing::TestParamInfo<std::tuple<Fulfilment, const char*>>& parameter) {
  return std::get<0>(parameter.param).name + "_" + std::get<1>(parameter.param);
}
INSTANTIATE_TEST_SUITE_P(Cpu, BackendBits,
                         testing::Combine(testing::ValuesIn(of_each_isa()), testing::Values("a", "b")),
                         bits_name);
INSTANTIATE_TEST_SUITE_P(CpuConverted, BackendBits,
                         testing::Combine(testing::ValuesIn(of_each_isa_converted()), testing::Values("a")),
                         bits_name);
INSTANTIATE_TEST_SUITE_P(Cpu, BackendOutputs, testing::ValuesIn(of_each_isa()),
                         [](const auto& parameter) { return parameter.param.name; });

class CpuBackend : public testing::Test {
 protected:
  static inline const std::shared_ptr<const Weights> weights = open_shared("models/tiny-gpt-oss");
};

// Differences from the reference come from the order of float32 sums. The order moves a sum by about 1e-6 of
// its size, so one in 4,000 elements of K and V (spaced by 2^-8) is rounded to the neighbouring bfloat16
// number: ten of the prompt's 37,000. Each such element changes the output by about 2^-8 / 8 (one of 64
// elements of a head) times the weight of its position. Together they change the output by less than 1e-3.
// With int8 activations, the order of sums can also change an activation's code.
TEST_F(CpuBackend, RunsExpertsOfEveryFormatLikeTheReference) {
  const std::vector<TokenId> prompt = random_ids(24, weights->config.vocab, 21);
  for (const auto& [name, format, activations] : kExperts) {
    const auto changed = with_experts(weights, format);
    const bool int8 = activations == ExpertActivations::kInt8;
    const std::vector<float> expected =
        rounded_reference(*changed, prompt, {.kv = Format::kBf16, .int8_activations = int8}).logits;
    for (const Isa isa : available_isas()) {
      TestOptions options = options_of(isa);
      options.cpu.expert_activations = activations;
      Feeder feeder(make(changed, options), Fulfilment::kNumPages);
      feeder.feed({{0, prompt}});
      double error = 0, norm = 0;
      for (size_t i = 0; i < expected.size(); ++i) {
        error += std::pow(double{feeder.logits(0)[i]} - expected[i], 2);
        norm += std::pow(double{expected[i]}, 2);
      }
      EXPECT_LT(std::sqrt(error / norm), format == Format::kQ8_0 ? 1e-2 : 1e-3) << name << cpu::name(isa);
    }
  }
}

TEST_F(CpuBackend, GivesUpAStepThatIsNotNeededAndRunsTheNextOneLikeAnyOther) {
  const auto make_backend = [&] { return make(weights, options_of(Isa::kPortable)); };
  expect_to_give_up_an_unneeded_step(*make_backend(), *make_backend(), Fulfilment::kNumPages);
}

TEST_F(CpuBackend, KeepsMxfp4ExpertsInStripsNextToLayersOfBf16) {
  Weights mixed = *weights;
  const auto converted = with_experts(weights, Format::kBf16);
  mixed.layers[2] = converted->layers[2];
  TestOptions options = options_of(Isa::kPortable);
  options.cpu.expert_activations = ExpertActivations::kInt8;
  std::vector<std::string> told;
  for (const KernelChoice& row : make(std::make_shared<const Weights>(mixed), options)->kernels())
    if (row.operation == Operation::kExpertsDown) told.push_back(row.weights + "/" + row.activations);
  EXPECT_THAT(told, testing::ElementsAre("MXFP4/INT8", "BF16/F32"));
}

TEST_F(CpuBackend, GivesTheSameBitsRunAfterRunAndForAnyNumberOfThreads) {
  const std::vector<TokenId> prompt = random_ids(150, weights->config.vocab, 10);
  for (const Isa isa : isas_of_their_own()) {
    std::vector<float> first;
    for (const int num_threads : {2, 2, 1, 3, 4}) {
      Feeder feeder(make(weights, options_of(isa, num_threads)), Fulfilment::kNumPages);
      feeder.feed({{0, prompt}});
      if (first.empty()) first = feeder.logits(0);
      EXPECT_EQ(feeder.logits(0), first) << name(isa) << ", " << num_threads << " threads";
    }
  }
}

// A prompt of 150 tokens uses the panels for many tokens, a prompt of 20 tokens the panels for few. If
// tile_from_tokens is 1, all matrix products use the strip kernels for many tokens; if it is 1,000, none do.
TEST_F(CpuBackend, GivesTheSameBitsHoweverItsWorkIsCut) {
  const CpuTuning tunings[]{{}, {16, 48, 1}, {192, 192, 1000}};
  const std::pair<ExpertActivations, std::shared_ptr<const Weights>> models[]{
      {ExpertActivations::kFloat, weights}, {ExpertActivations::kInt8, with_q8_0_blocks(weights)}};
  for (const Isa isa : isas_of_their_own())
    for (const auto& model : models)
      for (const int length : {20, 150}) {
        const std::vector<TokenId> prompt = random_ids(length, weights->config.vocab, 10);
        std::vector<float> first;
        for (const CpuTuning& tuning : tunings) {
          TestOptions options = options_of(isa);
          options.cpu.expert_activations = model.first;
          options.cpu.tuning = tuning;
          Feeder feeder(make(model.second, options), Fulfilment::kNumPages);
          feeder.feed({{0, prompt}});
          if (first.empty()) first = feeder.logits(0);
          EXPECT_EQ(feeder.logits(0), first) << name(isa) << ", panels of " << tuning.panel_rows << " and "
                                             << tuning.large_panel_rows << " rows";
        }
      }
}

TEST_F(CpuBackend, SaysWhatTuningHasChanged) {
  TestOptions options = options_of(available_isas().back());
  const auto backend = make(weights, options);
  const auto find = [&] {
    for (const KernelChoice& row : backend->kernels())
      if (row.operation == Operation::kExpertsUp && row.to_rows == kAnyRows) return row;
    return KernelChoice{};
  };
  const KernelChoice before = find();
  // Without a second kernel for many rows, tuning has no threshold to change.
  if (before.from_rows == 1) {
    retune(*backend, {.tile_from_tokens = 5});
    EXPECT_EQ(find().from_rows, 1);
    EXPECT_EQ(find().reason, before.reason);
    return;
  }
  retune(*backend, {.tile_from_tokens = before.from_rows + 5});
  EXPECT_EQ(find().from_rows, before.from_rows + 5);
  EXPECT_EQ(find().reason, "nibble tune");
  retune(*backend, {});
  EXPECT_EQ(find().from_rows, before.from_rows);
}

// Rows attend to more positions than a piece holds. A step with few such rows spreads their pieces over the
// threads, a step with many does not. Sliding windows begin inside a piece.
TEST_F(CpuBackend, GivesALongSequenceTheSameBitsInAnyChunksAndForAnyNumberOfThreads) {
  Weights wide = *open_shared("tests/golden/random/a");
  wide.config.window = 560;
  const auto shared = std::make_shared<const Weights>(std::move(wide));
  const std::vector<TokenId> prompt = random_ids(600, shared->config.vocab, 13);
  const std::span<const TokenId> all = prompt;
  const std::pair<int, size_t> threads_and_chunks[]{{3, 40}, {3, 1}, {1, 7}, {8, 2}};
  for (const Isa isa : isas_of_their_own()) {
    std::vector<float> first;
    for (const auto& [num_threads, chunk] : threads_and_chunks) {
      Feeder feeder(make(shared, options_of(isa, num_threads)), Fulfilment::kNumPages);
      feeder.feed({{0, all.first(560)}});
      feeder.feed_in_chunks(0, all.subspan(560), chunk);
      if (first.empty()) first = feeder.logits(0);
      EXPECT_EQ(feeder.logits(0), first)
          << name(isa) << ", " << num_threads << " threads, chunks of " << chunk;
    }
  }
}

// The parts of a profile add up to the whole step, whatever times the clock returns. The step has three rows,
// two of them with an output.
TEST_F(CpuBackend, ProfilesAStepWithoutAGapFromItsBeginningToItsEnd) {
  const auto backend = make(weights, options_of(Isa::kPortable));
  const std::vector<TokenId> tokens{1, 2, 3};
  const std::vector<PageId> pages{PageId{0}};
  const OutputRow outputs[]{{.token_index = 0, .prompt = {}, .output = {}},
                            {.token_index = 2, .prompt = {}, .output = {}}};
  const nibble::Run run{tokens, 0, {pages}, {pages}, outputs};
  const Stopwatch watch;
  const std::vector<TimedWork> work = backend->profile({.runs = {&run, 1}});
  const double elapsed = watch.seconds() * 1e6;
  std::vector<std::string> expected{"embed"}, told;
  for (int layer = 0; layer < weights->config.num_layers; ++layer)
    expected.insert(expected.end(), {"qkv", "attend", "project", "route", "experts"});
  expected.push_back("unembed");
  double end = 0;
  for (const TimedWork& piece : work) {
    told.emplace_back(piece.name);
    EXPECT_EQ(piece.begin, end) << piece.name;
    EXPECT_GT(piece.end, piece.begin) << piece.name;
    end = piece.end;
  }
  EXPECT_EQ(told, expected);
  EXPECT_LE(end, elapsed);
}

KernelChoice experts_of(Isa isa, ExpertActivations activations,
                        const std::shared_ptr<const Weights>& weights) {
  TestOptions options = options_of(isa);
  options.cpu.expert_activations = activations;
  for (const KernelChoice& row : make(weights, options)->kernels())
    if (row.operation == Operation::kExpertsUp) return row;
  return {};
}

TEST_F(CpuBackend, SaysWhichKernelRunsTheExpertsAndOnWhat) {
  for (const Isa isa : available_isas()) {
    const KernelChoice with_float = experts_of(isa, ExpertActivations::kFloat, weights);
    EXPECT_EQ(with_float.weights, "MXFP4");
    EXPECT_EQ(with_float.activations, "F32");
    EXPECT_EQ(with_float.kernel, choose_kernels(isa).dot(Format::kMxfp4)->name);
    EXPECT_FALSE(with_float.reason.empty());
    const KernelChoice with_int8 = experts_of(isa, ExpertActivations::kInt8, weights);
    EXPECT_EQ(with_int8.weights, "MXFP4");
    EXPECT_EQ(with_int8.activations, "INT8");
    EXPECT_EQ(with_int8.kernel, choose_kernels(isa).strip(Format::kMxfp4)->name);
    EXPECT_FALSE(with_int8.reason.empty());
  }
}

TEST_F(CpuBackend, RunsDenseLayersOfBlocksInStripsWithInt8ActivationsAndOtherwiseInBf16) {
  const auto told = [](ExpertActivations activations, const DenseFormats& dense) {
    TestOptions options = options_of(Isa::kPortable);
    options.cpu.expert_activations = activations;
    options.dense = dense;
    std::vector<std::string> lines;
    ThreadPool pool(1);
    const bool takes_blocks = takes_int8(options.cpu);
    for (const KernelChoice& row :
         make(with_elements(with_q8_0_blocks(weights), takes_blocks, pool), options)->kernels())
      lines.push_back(std::string(nibble::name(row.operation)) + ", " + row.weights + "/" + row.activations +
                      ": " + row.kernel);
    return lines;
  };
  EXPECT_THAT(told(ExpertActivations::kInt8, {}),
              testing::IsSupersetOf({"embed, Q8_0/F32: plain C++", "qkv, Q8_0/INT8: portable::strip_q8_0",
                                     "project, Q8_0/INT8: portable::strip_q8_0",
                                     "unembed, Q8_0/INT8: portable::strip_q8_0"}));
  EXPECT_THAT(
      told(ExpertActivations::kInt8, {Format::kMxfp4, Format::kE4m3, Format::kBf16}),
      testing::IsSupersetOf({"qkv, MXFP4/INT8: portable::strip_mxfp4", "project, FP8/F32: portable::dot_e4m3",
                             "unembed, Q8_0/INT8: portable::strip_q8_0"}));
  EXPECT_THAT(
      told(ExpertActivations::kFloat, {}),
      testing::IsSupersetOf({"qkv, BF16/F32: portable::dot_bf16", "project, BF16/F32: portable::dot_bf16",
                             "unembed, BF16/F32: portable::dot_bf16"}));
}

// Returns a model with matrices of both kinds. In even layers, q, k and v are stored as Q8_0 blocks and o as
// elements; in odd layers it is the reverse. Embedding and unembedding are stored as elements.
std::shared_ptr<const Weights> with_mixed_layers(const std::shared_ptr<const Weights>& weights) {
  Weights mixed = *with_q8_0_blocks(weights);
  for (size_t n = 0; n < mixed.layers.size(); ++n) {
    LayerWeights& layer = mixed.layers[n];
    const LayerWeights& plain = weights->layers[n];
    if (n % 2 == 0) layer.o = plain.o;
    if (n % 2 == 1) layer.q = plain.q, layer.k = plain.k, layer.v = plain.v;
  }
  mixed.embedding = weights->embedding;
  mixed.unembedding = weights->unembedding;
  return std::make_shared<const Weights>(std::move(mixed));
}

// Files may store some matrices as blocks (as GGUF does) and others as elements.
TEST_F(CpuBackend, RunsLayersOfBlocksTogetherWithLayersOfElements) {
  const std::vector<TokenId> prompt = random_ids(20, weights->config.vocab, 12);
  const auto logits = [&](const std::shared_ptr<const Weights>& mixed, ExpertActivations activations) {
    TestOptions options = options_of(Isa::kPortable);
    options.cpu.expert_activations = activations;
    Feeder feeder(make(mixed, options), Fulfilment::kNumPages);
    feeder.feed({{0, prompt}});
    return feeder.logits(0);
  };
  const std::vector<float> int8 = logits(with_mixed_layers(weights), ExpertActivations::kInt8),
                           plain = logits(weights, ExpertActivations::kInt8);
  double error = 0, norm = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    error += std::pow(double{int8[i]} - plain[i], 2);
    norm += std::pow(double{plain[i]}, 2);
  }
  EXPECT_GT(error, 0);
  EXPECT_LT(std::sqrt(error / norm), 0.1);  // unconverted elements would have arbitrary values
}

TEST_F(CpuBackend, SaysEachKernelOfLayersOfSeveralFormatsOnce) {
  TestOptions options = options_of(Isa::kPortable);
  options.cpu.expert_activations = ExpertActivations::kInt8;
  std::vector<std::string> told;
  for (const KernelChoice& row : make(with_mixed_layers(weights), options)->kernels())
    told.push_back(std::string(nibble::name(row.operation)) + ", " + row.weights + "/" + row.activations +
                   ": " + row.kernel);
  EXPECT_THAT(
      told, testing::ElementsAre(
                "embed, BF16/F32: plain C++", "qkv, Q8_0/INT8: portable::strip_q8_0",
                "qkv, BF16/F32: portable::dot_bf16", "attend, BF16/F32: portable::dot_bf16",
                "attend, BF16/F32: portable::weigh_bf16", "project, BF16/F32: portable::dot_bf16",
                "project, Q8_0/INT8: portable::strip_q8_0", "route, BF16/F32: portable::dot_bf16",
                "experts up, MXFP4/INT8: portable::strip_mxfp4",
                "experts down, MXFP4/INT8: portable::strip_mxfp4", "unembed, BF16/F32: portable::dot_bf16"));
}

TEST_F(CpuBackend, TakesInt8ActivationsUnlessItsKernelsArePortable) {
  for (const Isa isa : available_isas())
    EXPECT_EQ(experts_of(isa, ExpertActivations::kDefault, weights).activations,
              isa == Isa::kPortable ? "F32" : "INT8");
}

TEST_F(CpuBackend, GivesTheSameInt8BitsForAnyNumberOfThreads) {
  const std::vector<TokenId> prompt = random_ids(150, weights->config.vocab, 10);
  std::vector<float> first;
  for (const int num_threads : {2, 1, 4}) {
    TestOptions options = options_of(Isa::kPortable, num_threads);
    options.cpu.expert_activations = ExpertActivations::kInt8;
    Feeder feeder(make(weights, options), Fulfilment::kNumPages);
    feeder.feed({{0, prompt}});
    if (first.empty()) first = feeder.logits(0);
    EXPECT_EQ(feeder.logits(0), first) << num_threads << " threads";
  }
}

TEST_F(CpuBackend, RunsWhatItConvertedWithTheKernelsOfThatFormat) {
  TestOptions options = options_of(Isa::kPortable);
  options.dense = {Format::kE4m3, Format::kMxfp4, Format::kBf16};
  options.kv_format = Format::kE4m3;
  std::vector<std::string> told;
  for (const KernelChoice& row : make(weights, options)->kernels())
    told.push_back(std::string(nibble::name(row.operation)) + ", " + row.weights + ": " + row.kernel);
  EXPECT_THAT(told,
              testing::IsSupersetOf({"qkv, FP8: portable::dot_e4m3", "project, MXFP4: portable::dot_mxfp4",
                                     "unembed, BF16: portable::dot_bf16", "attend, FP8: portable::dot_e4m3",
                                     "attend, FP8: portable::weigh_e4m3"}));
}

TEST_F(CpuBackend, UsesTheBestInstructionSetByDefault) {
  TestOptions options = options_of(Isa::kPortable);
  options.cpu.isa.clear();
  const Kernels best = choose_kernels(available_isas().back());
  const auto kernels = make(weights, options)->kernels();
  EXPECT_EQ(kernels.back().kernel, best.dot(Format::kBf16)->name);
  EXPECT_EQ(experts_of(available_isas().back(), ExpertActivations::kDefault, weights).kernel,
            best.strip(Format::kMxfp4)->name);
}

TEST_F(CpuBackend, RefusesAnInstructionSetItDoesNotHaveAndNamesThoseItHas) {
  TestOptions options = options_of(Isa::kPortable);
  options.cpu.isa = "avx9";
  std::string has;
  for (const Isa isa : available_isas()) has = fmt::format("{}{}{}", name(isa), has.empty() ? "" : ", ", has);
  EXPECT_THAT(error_of([&] { make(weights, options); }),
              testing::AllOf(testing::HasSubstr("'avx9'"), testing::HasSubstr("choose of " + has + ",")));
}

TEST_F(CpuBackend, RefusesWhatItHasNoKernelFor) {
  Weights changed = *weights;
  std::get<Elements>(changed.layers[1].down.first.stored).format = Format::kF32;
  EXPECT_THROW(make(std::make_shared<const Weights>(changed), options_of(Isa::kPortable)), InputError);
  changed = *weights;
  std::get<Elements>(changed.embedding.stored).format = Format::kMxfp4;
  EXPECT_THROW(make(std::make_shared<const Weights>(changed), options_of(Isa::kPortable)), InputError);
  changed = *weights;
  changed.config.head_dim = 512;
  EXPECT_THROW(make(std::make_shared<const Weights>(changed), options_of(Isa::kPortable)), InputError);
}

TEST_F(CpuBackend, PlansItsOwnCopyOfWhatItConverts) {
  TestOptions options = options_of(Isa::kPortable);
  const size_t bf16_kv = plan(weights->config, options).kv_bytes;
  options.dense = {Format::kBf16, Format::kE4m3, Format::kBf16};
  options.kv_format = Format::kE4m3;
  const MemoryPlan memory = plan(weights->config, options);
  EXPECT_EQ(memory.weight_bytes, 6u * 256 * (512 + 4));  // o [256, 512] of 6 layers, with row scales
  EXPECT_EQ(memory.replaced_weight_bytes, 6u * 256 * 512 * 2);
  EXPECT_EQ(memory.kv_bytes, bf16_kv / 2);
}

// The model has 6 layers of 16 experts. Each expert has gate_up [256, 256] and down [256, 128], at 17 bytes
// per 32 elements.
TEST_F(CpuBackend, PlansExpertsInStripsInsteadOfTheStoredOnes) {
  TestOptions options = options_of(Isa::kPortable);
  options.cpu.expert_activations = ExpertActivations::kInt8;
  const MemoryPlan memory = plan(weights->config, options);
  EXPECT_EQ(memory.weight_bytes, size_t{6} * 16 * (256 * 256 + 256 * 128) / 32 * 17);
  EXPECT_EQ(memory.replaced_weight_bytes, memory.weight_bytes);
  EXPECT_EQ(memory.released_weight_bytes, memory.weight_bytes);
}

TEST_F(CpuBackend, TakesFloat32ThatIsToBeConverted) {
  Weights changed = *weights;
  std::vector<float> o(size_t{256} * 512, 0.5f);
  for (LayerWeights& layer : changed.layers)
    layer.o.stored = Elements{.format = Format::kF32, .data = o.data()};
  const auto shared = std::make_shared<const Weights>(changed);
  TestOptions options = options_of(Isa::kPortable);
  EXPECT_THROW(make(shared, options), InputError);
  options.dense.attention_output = Format::kE4m3;
  EXPECT_NO_THROW(make(shared, options));
}

// The model has 3 full and 3 sliding layers. A layer's page holds keys and values of 2 heads, 32 positions,
// 64 elements of 2 bytes.
TEST_F(CpuBackend, PlansItsPagesToTheByteAndNoCopyOfTheWeights) {
  TestOptions options{{.num_pages = 14, .max_batch_tokens = 16, .num_threads = 1}, {.isa = "portable"}};
  const MemoryPlan small = plan(weights->config, options);
  EXPECT_EQ(small.weight_bytes, 0u);
  EXPECT_EQ(small.kv_bytes, size_t{(3 * 10 + 3 * 4) * 2 * 2 * 32 * 64 * 2});
  EXPECT_GT(small.workspace_bytes, 16u * 4096 * 4);  // at least the logits of 16 rows
  options.max_batch_tokens = 512;
  // A row takes: x, normed [256], q, attended [512], cos, sin [32], router logits [16], experts and weights
  // [4], h [4, 128], panels [4, 192]. Independent of the number of rows: the logits of 24 rows, and the parts
  // of attention [256, 8, 66].
  const size_t row_floats = 256 + 256 + 512 + 512 + 32 + 32 + 16 + 4 + 4 + 4 * 128 + 4 * kMaxPanelRows;
  EXPECT_EQ(plan(weights->config, options).workspace_bytes,
            (512 * row_floats + 24 * 4096 + 256 * 8 * 66) * 4);
}

}  // namespace
}  // namespace nibble::cpu
