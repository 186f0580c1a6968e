// Tests which kernels a model uses on every kind of GPU. Needs no GPU.
#include "backend/cuda/plan.h"
#include "backend/cuda/chip/caps.h"
#include "backend/cuda/dense/args.h"
#include "backend/cuda/pipeline/row_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/error_of.h"

namespace nibble::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kMaxTokens{512};

BackendOptions options_with(Format dense, Format kv) {
  BackendOptions options;
  options.max_batch_tokens = kMaxTokens;
  options.dense = {dense, dense, dense};
  options.kv_format = kv;
  return options;
}

Plan plan_of(const char* model, const Target& target, const BackendOptions& options = {}) {
  return {*named_config(model), options, target, model};
}

int count_rows(const Plan& plan, Operation operation, int num_rows) {
  return static_cast<int>(std::count_if(
      plan.chosen().begin(), plan.chosen().end(),
      [&](const KernelRow* row) { return row->operation == operation && row->takes(num_rows); }));
}

TEST(CudaPlan, HasOneKernelForEveryOperationFormatAndNumberOfRowsOnEveryGpu) {
  for (const std::string& gpu : known_gpu_names())
    for (const char* model : {"gpt-oss-20b", "gpt-oss-120b"})
      for (const Format dense : {Format::kBf16, Format::kE4m3, Format::kMxfp4})
        for (const Format kv : {Format::kBf16, Format::kE4m3}) {
          const Plan plan = plan_of(model, target_of(known_gpu(gpu), {}), options_with(dense, kv));
          for (const Operation operation : kOperations)
            for (int rows = 1; rows <= kMaxTokens; ++rows) {
              const bool is_part_of_others = (operation == Operation::kRmsNorm && rows <= kOwnNorms) ||
                                             (operation == Operation::kAppend && rows == 1);
              ASSERT_EQ(count_rows(plan, operation, rows), is_part_of_others ? 0 : 1)
                  << nibble::name(operation) << " of " << rows << " rows on " << gpu;
            }
        }
}

// Split-K kernels take up to 64 tokens, because the workspace holds the partial sums of only 64 tokens.
TEST(CudaPlan, SharesTheContractionOfABatchWhereWgmmaMultiplies) {
  const auto is_split = [](const Plan& plan, int rows) {
    const auto* const qkv = std::get_if<Launch<QkvArgs>>(&plan.find(Operation::kQkv, rows)->launcher);
    const auto* const project =
        std::get_if<Launch<ProjectArgs>>(&plan.find(Operation::kProject, rows)->launcher);
    EXPECT_EQ(*qkv == &qkv_split, *project == &project_split) << rows << " rows";
    return *qkv == &qkv_split;
  };
  for (const Format dense : {Format::kBf16, Format::kE4m3, Format::kMxfp4}) {
    const BackendOptions options = options_with(dense, Format::kBf16);
    const Plan plan = plan_of("gpt-oss-120b", target_of(known_gpu("h200"), {}), options);
    const Plan other = plan_of("gpt-oss-120b", target_of(known_gpu("b200"), {}), options);
    for (int rows = 1; rows <= kMaxTokens; ++rows) {
      EXPECT_EQ(is_split(plan, rows), rows > kMaxColumns && rows <= 64) << rows << " rows";
      EXPECT_FALSE(is_split(other, rows)) << rows << " rows";
    }
  }
}

TEST(CudaPlan, TakesTheRowsOfTheModelsFormats) {
  const BackendOptions options = options_with(Format::kE4m3, Format::kE4m3);
  const Plan plan = plan_of("gpt-oss-20b", target_of(known_gpu("h100"), {}), options);
  for (const Operation operation :
       {Operation::kQkv, Operation::kProject, Operation::kUnembed, Operation::kAttend})
    EXPECT_EQ(plan.find(operation, 5)->weights, Format::kE4m3) << nibble::name(operation);
  EXPECT_EQ(plan.find(Operation::kExpertsUp, 5)->weights, Format::kMxfp4);
  EXPECT_EQ(choices(plan).size(), plan.chosen().size());
}

Plan plan_with(std::optional<BlockFormat> activations, const char* gpu, Format dense = Format::kBf16) {
  const BackendOptions options = options_with(dense, Format::kBf16);
  return {*named_config("gpt-oss-20b"), options, target_of(known_gpu(gpu), {}), "gpt-oss-20b", {activations}};
}

// Steps of few tokens run on decode kernels. Their table rows do not depend on the prompt activations.
TEST(CudaPlan, UsesTheRequestedPromptActivationsWhereWeightsAreMxfp4) {
  for (const std::string& gpu : known_gpu_names()) {
    // With wgmma, the plan without block-scaled activations differs in more operations (see below).
    if (multiplies_by_wgmma(target_of(known_gpu(gpu), {}))) continue;
    for (const Format dense : {Format::kBf16, Format::kE4m3, Format::kMxfp4})
      for (const BlockFormat format : kBlockFormats) {
        const Plan plan = plan_with(format, gpu.c_str(), dense), plain = plan_with({}, gpu.c_str(), dense);
        for (const Operation operation : kOperations)
          for (int rows = 1; rows <= kMaxTokens; ++rows) {
            const KernelRow *row = plan.find(operation, rows), *other = plain.find(operation, rows);
            const bool is_dense = operation == Operation::kQkv || operation == Operation::kProject ||
                                  operation == Operation::kUnembed,
                       is_of_experts =
                           operation == Operation::kExpertsUp || operation == Operation::kExpertsDown,
                       is_asked_for =
                           rows > kFewTokens && (is_of_experts || (is_dense && dense == Format::kMxfp4));
            ASSERT_EQ(count_rows(plan, operation, rows), count_rows(plain, operation, rows));
            ASSERT_EQ(row == other, !is_asked_for) << nibble::name(operation) << " of " << rows;
            if (is_asked_for) {
              ASSERT_EQ(block_format_of(*row), format);
            }
          }
      }
  }
}

// A large GPU with the limits of a GB10 checks and times the kernels that a GB10 runs.
TEST(CudaPlan, OnAnH200WithTheLimitsOfAGb10HasTheRowsOfAGb10) {
  constexpr int kMostRows{8192};
  const Target gb10 = target_of(known_gpu("gb10"), {}),
               limited = target_of(known_gpu("h200"), {.shared_budget = 99, .num_multiprocessors = 48});
  std::vector<std::optional<BlockFormat>> prompt_activations{std::nullopt};
  prompt_activations.insert(prompt_activations.end(), std::begin(kBlockFormats), std::end(kBlockFormats));
  for (const char* model : {"gpt-oss-20b", "gpt-oss-120b"})
    for (const Format dense : {Format::kBf16, Format::kE4m3, Format::kMxfp4})
      for (const Format kv : {Format::kBf16, Format::kE4m3})
        for (const std::optional<BlockFormat> activations : prompt_activations) {
          BackendOptions options = options_with(dense, kv);
          options.max_batch_tokens = kMostRows;
          const Config config = *named_config(model);
          const Plan on_gb10(config, options, gb10, model, {activations}),
              on_limited(config, options, limited, model, {activations});
          for (const Operation operation : kOperations)
            for (int rows = 1; rows <= kMostRows; ++rows)
              ASSERT_EQ(on_limited.find(operation, rows), on_gb10.find(operation, rows))
                  << nibble::name(operation) << " of " << rows << " rows, dense layers in "
                  << nibble::name(dense);
        }
}

// wgmma reads activations as swizzled tiles (images), but block-scaled kernels read them row by row.
TEST(CudaPlan, UsesNoWgmmaWithBlockScaledActivations) {
  for (const Format dense : {Format::kBf16, Format::kMxfp4}) {
    const Plan plan = plan_with(BlockFormat::kMxfp8, "h200", dense);
    for (const KernelRow* row : plan.chosen()) EXPECT_FALSE(row->pass.takes_image) << name(*row);
    EXPECT_EQ(plan.row(Operation::kRoute, kWideTokens).pass.columns, 64);
  }
}

TEST(CudaPlan, SaysWhichKernelsRunByTwin) {
  const auto num_by_twin = [](const Plan& plan) {
    const std::vector<KernelChoice> found = choices(plan);
    return std::count_if(found.begin(), found.end(), [](const KernelChoice& choice) {
      return choice.kernel.find("by twin") != std::string::npos;
    });
  };
  for (const char* gpu : {"gb10", "rtx5090"})
    EXPECT_EQ(num_by_twin(plan_with(BlockFormat::kMxfp8x2, gpu)), 0) << gpu;
  for (const char* gpu : {"h200", "b200", "rtx4090"}) {
    EXPECT_EQ(num_by_twin(plan_with(BlockFormat::kMxfp8x2, gpu)), 2) << gpu;
    EXPECT_EQ(num_by_twin(plan_with(BlockFormat::kMxfp8x2, gpu, Format::kMxfp4)), 5) << gpu;
    EXPECT_EQ(num_by_twin(plan_with({}, gpu)), 0) << gpu;
  }
}

// All kernels for many tokens that pass activations to each other must use one layout.
TEST(CudaPlan, MultipliesManyTokensByWgmmaOnHopperWhereItsStagesHaveRoom) {
  for (const char* gpu : {"h100", "h200", "b200", "gb10"})
    for (const int budget : {99, 163, 227}) {
      const DeviceCaps caps = known_gpu(gpu);
      if (static_cast<size_t>(budget) > caps.shared_bytes >> 10) continue;
      const Plan plan = plan_of("gpt-oss-120b", target_of(caps, {.shared_budget = budget}));
      for (const Operation operation : {Operation::kQkv, Operation::kProject, Operation::kRoute,
                                        Operation::kExpertsUp, Operation::kExpertsDown})
        for (const int rows : {1, kMaxColumns, kMaxColumns + 1, kFewTokens + 1, kManyTokens, kNarrowTokens,
                               kNarrowTokens + 1, kWideTokens - 1, kWideTokens})
          EXPECT_EQ(plan.find(operation, rows)->pass.takes_image,
                    caps.family == Family::kSm90 && budget == 227 && rows > kMaxColumns)
              << gpu << ", " << budget << " KB: " << nibble::name(operation) << " of " << rows;
    }
}

TEST(CudaPlan, RefusesWhatNoRowRuns) {
  const Target target = target_of(known_gpu("h100"), {.num_multiprocessors = 3});
  EXPECT_THAT(error_of([&] { plan_of("gpt-oss-120b", target); }),
              AllOf(HasSubstr("gpt-oss-120b"), HasSubstr("route"), HasSubstr("3 multiprocessors")));
  BackendOptions options;
  options.dense.qkv = Format::kF32;
  EXPECT_THAT(error_of([&] { plan_of("gpt-oss-20b", target_of(known_gpu("h100"), {}), options); }),
              AllOf(HasSubstr("qkv"), HasSubstr("F32"), HasSubstr("sm_90"), HasSubstr("--backend cpu")));
}

// If table rows for the same operation differ in their families, a GPU runs the row of its own family.
TEST(CudaPlan, TakesAFamilysOwnRow) {
  std::vector<KernelRow> rows(kernel_rows().begin(), kernel_rows().end());
  const auto kernel_on = [&](const char* gpu, Operation operation) {
    const Plan plan(*named_config("gpt-oss-20b"), {}, target_of(known_gpu(gpu), {}), "a model",
                    {.rows = rows});
    return std::string(plan.find(operation, 1)->kernel);
  };
  EXPECT_EQ(kernel_on("h200", Operation::kUnembed).substr(0, 14), "unembed_dealt:");
  EXPECT_EQ(kernel_on("gb10", Operation::kUnembed).substr(0, 8), "unembed:");

  const auto is_its_row = [](const KernelRow& row) {
    return row.operation == Operation::kProject && row.weights == Format::kBf16 && row.from_rows == 1;
  };
  const auto shared = std::find_if(rows.begin(), rows.end(), is_its_row);
  ASSERT_NE(shared, rows.end());
  shared->families = {Family::kSm80, Family::kSm86, Family::kSm89, Family::kSm90, Family::kSm100};
  KernelRow own = *shared;
  own.families = {Family::kSm120, Family::kSm121};
  own.kernel = "own";
  rows.push_back(own);
  EXPECT_EQ(kernel_on("gb10", Operation::kProject), "own");
  EXPECT_NE(kernel_on("h200", Operation::kProject), "own");
}

}  // namespace
}  // namespace nibble::cuda
