// The CPU backend behind the contract, with each instruction set; and what can't be run is said.
#include "backend/cpu/cpu_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/backend/contract.h"
#include "tests/backend/cpu/isas.h"
#include "tests/error_of.h"

namespace nibble::cpu {
namespace {

BackendOptions options_of(Isa isa, int num_threads = 2) {
  return {.num_full_pages = Fulfilment::kNumPages,
          .num_sliding_pages = Fulfilment::kNumPages,
          .max_batch_tokens = 1024,
          .num_threads = num_threads,
          .isa = std::string(name(isa))};
}

constexpr DenseFormats kFp8{Format::kE4m3, Format::kE4m3, Format::kE4m3};
constexpr DenseFormats kMxfp4{Format::kMxfp4, Format::kMxfp4, Format::kMxfp4};

std::vector<Fulfilment> of_each_isa() {
  std::vector<Fulfilment> all;
  for (const Isa isa : available_isas()) {
    const auto add = [&](const char* formats, const DenseFormats& dense, Format kv) {
      BackendOptions options = options_of(isa);
      options.dense = dense;
      options.kv_format = kv;
      all.push_back(
          {std::string(name(isa)) + formats, [options](auto weights) { return make(weights, options); }});
    };
    add("", {}, Format::kBf16);
    add("_fp8", kFp8, Format::kE4m3);
    add("_mxfp4", kMxfp4, Format::kBf16);
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Cpu, BackendBits,
                         testing::Combine(testing::ValuesIn(of_each_isa()), testing::Values("a", "b")),
                         [](const auto& parameter) {
                           return std::get<0>(parameter.param).name + "_" + std::get<1>(parameter.param);
                         });
INSTANTIATE_TEST_SUITE_P(Cpu, BackendOutputs, testing::ValuesIn(of_each_isa()),
                         [](const auto& parameter) { return parameter.param.name; });

class CpuBackend : public testing::Test {
 protected:
  static inline const std::shared_ptr<const Weights> weights = open_shared("models/tiny-gpt-oss");
};

TEST_F(CpuBackend, GivesTheSameBitsRunAfterRunAndForAnyNumberOfThreads) {
  const std::vector<TokenId> prompt = random_ids(150, weights->config.vocab, 10);
  for (const Isa isa : available_isas()) {
    std::vector<float> first;
    for (const int num_threads : {2, 2, 1, 3, 4}) {
      Feeder feeder(make(weights, options_of(isa, num_threads)), Fulfilment::kNumPages);
      feeder.feed({{0, prompt}});
      if (first.empty()) first = feeder.logits(0);
      EXPECT_EQ(feeder.logits(0), first) << name(isa) << ", " << num_threads << " threads";
    }
  }
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

TEST_F(CpuBackend, RunsWhatItConvertedWithTheKernelsOfThatFormat) {
  BackendOptions options = options_of(Isa::kPortable);
  options.dense = {Format::kE4m3, Format::kMxfp4, Format::kBf16};
  options.kv_format = Format::kE4m3;
  std::vector<std::string> told;
  for (const KernelChoice& row : make(weights, options)->kernels())
    told.push_back(row.operation + ", " + row.weights + ": " + row.kernel);
  EXPECT_THAT(told, testing::IsSupersetOf(
                        {"qkv, FP8: portable::dot_e4m3", "project, MXFP4: portable::dot_mxfp4",
                         "unembed, BF16: portable::dot_bf16", "attend, FP8 keys: portable::dot_e4m3",
                         "attend, FP8 values: portable::weigh_e4m3"}));
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
  EXPECT_THAT(error_of([&] { make(weights, options); }),
              testing::AllOf(testing::HasSubstr("avx9"), testing::HasSubstr("portable")));
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

TEST_F(CpuBackend, PlansItsOwnCopyOfWhatItConverts) {
  BackendOptions options = options_of(Isa::kPortable);
  const size_t bf16_kv = plan(weights->config, options).kv_bytes;
  options.dense = {Format::kBf16, Format::kE4m3, Format::kBf16};
  options.kv_format = Format::kE4m3;
  const MemoryPlan memory = plan(weights->config, options);
  EXPECT_EQ(memory.weight_bytes, 6u * 256 * (512 + 4));  // o [256, 512] of 6 layers, and its row scales
  EXPECT_EQ(memory.replaced_weight_bytes, 6u * 256 * 512 * 2);
  EXPECT_EQ(memory.kv_bytes, bf16_kv / 2);
}

TEST_F(CpuBackend, TakesFloat32ThatIsToBeConverted) {
  Weights changed = *weights;
  std::vector<float> o(size_t{256} * 512, 0.5f);
  for (LayerWeights& layer : changed.layers) {
    layer.o.format = Format::kF32;
    layer.o.data = o.data();
  }
  const auto shared = std::make_shared<const Weights>(changed);
  BackendOptions options = options_of(Isa::kPortable);
  EXPECT_THROW(make(shared, options), InputError);
  options.dense.attention_output = Format::kE4m3;
  EXPECT_NO_THROW(make(shared, options));
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
