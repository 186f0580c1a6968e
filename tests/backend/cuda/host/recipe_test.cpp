// Tests the recipe of a step for every number of tokens, family and way to share a model. Needs no GPU.
#include "backend/cuda/recipe.h"
#include "backend/cuda/chip/caps.h"

#include <gtest/gtest.h>

namespace nibble::cuda {
namespace {

constexpr int kMostRecipeTokens{2048};
constexpr Sharing kAlone{}, kByPeers{true, true, false}, kByNccl{true, false, false},
    kOfSequences{true, true, true};

Plan plan_for_recipes(const std::string& gpu, std::optional<BlockFormat> prompt_activations = {},
                      const DenseFormats& dense = {}) {
  BackendOptions options;
  options.max_batch_tokens = kMostRecipeTokens;
  options.dense = dense;
  return {*named_config("gpt-oss-120b"),
          options,
          target_of(known_gpu(gpu), {}),
          "gpt-oss-120b",
          {prompt_activations}};
}
StepRecipe recipe_for(const Plan& plan, int num_tokens, const Sharing& sharing = kAlone) {
  const int num_own_rows = sharing.has_own_sequences ? kOwnNorms + 1 : num_tokens;
  return recipe(plan, *named_config("gpt-oss-120b"), sharing, {num_tokens, num_own_rows});
}
template <typename F>
void for_each_family_and_step(const F& f) {
  for (const Family family : kFamilies) {
    const Plan plan = plan_for_recipes(name(family));
    for (int tokens = 1; tokens <= kMostRecipeTokens; ++tokens) {
      SCOPED_TRACE(name(family) + ", tokens: " + std::to_string(tokens));
      f(plan, tokens);
    }
  }
}

// All kernels of a step must agree on the launch that computes a norm, and on the largest number of pairs in
// a group.
TEST(CudaRecipe, KernelsOfAStepAgreeOnNormsAndGroups) {
  for_each_family_and_step([](const Plan& plan, int tokens) {
    const StepRecipe recipe = recipe_for(plan, tokens);
    EXPECT_EQ(plan.row(Operation::kQkv, tokens).pass.takes_norm, recipe.attention_norm != NormIn::kReader);
    EXPECT_EQ(plan.row(Operation::kRoute, tokens).pass.takes_norm, recipe.experts_norm != NormIn::kReader);
    EXPECT_EQ(plan.find(Operation::kRmsNorm, tokens) != nullptr, recipe.attention_norm != NormIn::kReader);
    for (const Operation operation : {Operation::kExpertsUp, Operation::kExpertsDown})
      EXPECT_EQ(plan.row(operation, tokens).pass.columns, recipe.group_size);
    EXPECT_EQ(plan.row(Operation::kProject, tokens).pass.leaves_parts, recipe.num_parts == 2);
    for (const Operation operation : {Operation::kQkv, Operation::kProject, Operation::kRoute,
                                      Operation::kExpertsUp, Operation::kExpertsDown})
      EXPECT_EQ(plan.row(operation, tokens).pass.takes_image,
                recipe.qkv_activations == ActivationLayout::kImage);
    EXPECT_EQ(recipe.expert_activations, recipe.qkv_activations);
    EXPECT_EQ(recipe.attended_activations, recipe.qkv_activations);
    EXPECT_FALSE(recipe.project_quantises);
    EXPECT_EQ(plan.row(Operation::kExpertsUp, tokens).launcher.index() ==
                  plan.row(Operation::kRoute, tokens).launcher.index(),
              recipe.routing == RoutingBy::kSameLaunch);
  });
}

TEST(CudaRecipe, ANormIsComputedInTheRouterWhereItsLaunchHasACtaForEveryTwoTokens) {
  for_each_family_and_step([](const Plan& plan, int tokens) {
    const StepRecipe recipe = recipe_for(plan, tokens);
    const int most_in_router = multiplies_by_wgmma(plan.target()) ? kRouterNorms : kFewTokens;
    EXPECT_EQ(recipe.attention_norm, tokens <= kOwnNorms ? NormIn::kReader : NormIn::kOwnLaunch);
    EXPECT_EQ(recipe.experts_norm, tokens <= kOwnNorms        ? NormIn::kReader
                                   : tokens <= most_in_router ? NormIn::kRouter
                                                              : NormIn::kOwnLaunch);
  });
}

TEST(CudaRecipe, SumsOverPeersLeaveTheNormsExceptTheFirst) {
  for_each_family_and_step([](const Plan& plan, int tokens) {
    const StepRecipe recipe = recipe_for(plan, tokens, kByPeers), alone = recipe_for(plan, tokens),
                     nccl = recipe_for(plan, tokens, kByNccl);
    const bool reader_norms = tokens <= kOwnNorms;
    EXPECT_EQ(recipe.attention_norm, reader_norms ? NormIn::kReader : NormIn::kAllReduce);
    EXPECT_EQ(recipe.experts_norm, reader_norms ? NormIn::kReader : NormIn::kAllReduce);
    EXPECT_EQ(recipe.attention_norm_of(0), alone.attention_norm);
    EXPECT_EQ(nccl.attention_norm, alone.attention_norm);
    EXPECT_EQ(nccl.experts_norm, alone.experts_norm);
  });
}

// Only rms_norm() writes norms in block-scaled formats.
TEST(CudaRecipe, SumsLeaveNoNormsNextToBlockScaledActivations) {
  const Plan plan = plan_for_recipes("gb10", BlockFormat::kMxfp8);
  for (int tokens = 1; tokens <= kMostRecipeTokens; ++tokens) {
    const StepRecipe recipe = recipe_for(plan, tokens, kByPeers);
    EXPECT_NE(recipe.attention_norm, NormIn::kAllReduce) << tokens;
    EXPECT_NE(recipe.experts_norm, NormIn::kAllReduce) << tokens;
    EXPECT_EQ(recipe.expert_activations,
              tokens > kFewTokens ? ActivationLayout::kBlocks : ActivationLayout::kRows)
        << tokens;
    if (recipe.expert_activations == ActivationLayout::kBlocks) {
      EXPECT_EQ(recipe.experts_norm, NormIn::kOwnLaunch) << tokens;
    }
    EXPECT_EQ(recipe.qkv_activations, ActivationLayout::kRows) << tokens;
  }
}

// Dense layers in BF16 or FP8 read bfloat16 activations. Attention always writes bfloat16.
TEST(CudaRecipe, DenseLayersInMxfp4ReadBlockScaledActivationsOfManyRows) {
  for (const Format qkv : {Format::kBf16, Format::kE4m3, Format::kMxfp4})
    for (const Format output : {Format::kBf16, Format::kE4m3, Format::kMxfp4})
      for (const char* gpu : {"gb10", "rtx5090", "h200", "a100"}) {
        const Plan plan = plan_for_recipes(gpu, BlockFormat::kMxfp8, {qkv, output, qkv});
        for (int tokens = 1; tokens <= kMostRecipeTokens; ++tokens) {
          SCOPED_TRACE(std::string(gpu) + ", tokens: " + std::to_string(tokens));
          const StepRecipe recipe = recipe_for(plan, tokens);
          const bool is_many = tokens > kFewTokens;
          const ActivationLayout expected =
              is_many && qkv == Format::kMxfp4 ? ActivationLayout::kBlocks : ActivationLayout::kRows;
          EXPECT_EQ(recipe.qkv_activations, expected);
          EXPECT_EQ(recipe.attended_activations, ActivationLayout::kRows);
          EXPECT_EQ(recipe.project_quantises, is_many && output == Format::kMxfp4);
          const UnembedRecipe logits = unembed_recipe(plan, 201088, 2880, tokens);
          EXPECT_EQ(logits.activations, expected);
          if (expected == ActivationLayout::kBlocks) {  // only rms_norm() writes block-scaled norms
            EXPECT_EQ(recipe.attention_norm, NormIn::kOwnLaunch);
            EXPECT_EQ(logits.norm, NormIn::kOwnLaunch);
          }
        }
      }
}

// The all-reduce leaves the stream in x only if the next kernel does not compute the norm. In a kernel that
// does, some CTAs write x while others still read the stream.
TEST(CudaRecipe, TheStreamOfRanksIsNotInXWhereReadersComputeNorms) {
  for_each_family_and_step([](const Plan& plan, int tokens) {
    EXPECT_EQ(recipe_for(plan, tokens).stream_after_attention, StreamIn::kProjectParts);
    EXPECT_EQ(recipe_for(plan, tokens).num_stream_parts, recipe_for(plan, tokens).num_parts);
    for (const Sharing& sharing : {kByPeers, kByNccl, kOfSequences}) {
      const StepRecipe recipe = recipe_for(plan, tokens, sharing);
      EXPECT_EQ(recipe.num_stream_parts, 1);
      EXPECT_FALSE(recipe.project_adds_stream || recipe.reader_adds_experts);
      EXPECT_EQ(recipe.stream_after_attention, recipe.experts_norm != NormIn::kReader ? StreamIn::kX
                                               : sharing.has_own_sequences            ? StreamIn::kExpertsOut
                                                                           : StreamIn::kProjectParts);
    }
  });
}

TEST(CudaRecipe, ARankGathersTheNormsOfItsOwnSequences) {
  for_each_family_and_step([](const Plan& plan, int tokens) {
    const StepRecipe recipe = recipe_for(plan, tokens, kOfSequences);
    EXPECT_TRUE(recipe.gathers_own_rows);
    for (const size_t layer : {0, 1}) EXPECT_EQ(recipe.attention_norm_of(layer), NormIn::kOwnLaunch);
    EXPECT_EQ(recipe.rows.num_attention_rows, kOwnNorms + 1);
    EXPECT_EQ(recipe.num_parts, 2);
  });
}

// The model chooses 4 of 128 experts for each token.
TEST(CudaRecipe, TheChoiceOfExpertsOfFewTokensTakesAMailbox) {
  for_each_family_and_step([](const Plan& plan, int tokens) {
    const StepRecipe recipe = recipe_for(plan, tokens);
    EXPECT_EQ(recipe.routing, tokens <= kOwnNorms           ? RoutingBy::kSameLaunch
                              : 4 * tokens <= kMatchedPairs ? RoutingBy::kMailbox
                                                            : RoutingBy::kGroups);
    EXPECT_EQ(recipe.max_groups, max_num_groups(tokens, 128, 4, recipe.group_size));
  });
  EXPECT_EQ(recipe_for(plan_for_recipes("h200"), 1).max_groups, 4);  // a group for each chosen expert
}

TEST(CudaRecipe, GroupsGrowWithTheTokensOfAStep) {
  const Plan hopper = plan_for_recipes("h200"), other = plan_for_recipes("b200");
  for (const auto& [tokens, size] :
       {std::pair(kMaxColumns, kMaxColumns), std::pair(kMaxColumns + 1, kBatchColumns),
        std::pair(kManyTokens - 1, kBatchColumns), std::pair(kManyTokens, kManyColumns),
        std::pair(kWideTokens - 1, kManyColumns), std::pair(kWideTokens, kMostColumns)})
    EXPECT_EQ(recipe_for(hopper, tokens).group_size, size) << tokens;
  for (const auto& [tokens, size] :
       {std::pair(kFewTokens, kMaxColumns), std::pair(kFewTokens + 1, kManyColumns),
        std::pair(kWideTokens, kManyColumns)})
    EXPECT_EQ(recipe_for(other, tokens).group_size, size) << tokens;
}

TEST(CudaRecipe, PagesAreLoadedAheadOnHopperAlone) {
  for_each_family_and_step([](const Plan& plan, int tokens) {
    const StepRecipe recipe = recipe_for(plan, tokens);
    // A page has 32 positions of 8 heads, with keys and values of 64 numbers in bfloat16.
    EXPECT_EQ(recipe.ahead_page_bytes, plan.target().family == Family::kSm90 ? 32 * 8 * 2 * 64 * 2 : 0);
    EXPECT_LE(size_t{1} * recipe.ahead_page_bytes * recipe.num_pages_ahead * tokens, size_t{16} << 20);
  });
  EXPECT_EQ(recipe_for(plan_for_recipes("h200"), 1).num_pages_ahead, 256);
}

// tests/backend/cuda/emulated/launches_of_steps.cpp compares all launches of such a GPU.
TEST(CudaRecipe, PagesAreNotLoadedAheadOnAHopperGpuLimitedToASmallerBudget) {
  const Target limited = target_of(known_gpu("h200"), {.shared_budget = 99});
  const Plan plan(*named_config("gpt-oss-120b"), {}, limited, "gpt-oss-120b");
  for (int tokens = 1; tokens <= BackendOptions{}.max_batch_tokens; ++tokens)
    EXPECT_EQ(recipe_for(plan, tokens).ahead_page_bytes, 0) << tokens;
}

TEST(CudaRecipe, LogitsTakeANormOfTheirRowsWhereManyAreMultiplied) {
  for (const Family family : kFamilies) {
    const Plan plan = plan_for_recipes(name(family));
    const bool by_wgmma = multiplies_by_wgmma(plan.target());
    for (int rows = 1; rows <= 64; ++rows) {
      const UnembedRecipe recipe = unembed_recipe(plan, 201088, 2880, rows);
      const bool is_many = rows > (by_wgmma ? kOwnNorms : kFewTokens);
      EXPECT_EQ(recipe.norm, is_many ? NormIn::kOwnLaunch : NormIn::kReader) << name(family) << ' ' << rows;
      EXPECT_EQ(recipe.activations, is_many && by_wgmma ? ActivationLayout::kImage : ActivationLayout::kRows)
          << name(family) << ' ' << rows;
    }
  }
}

// The unembedding of gpt-oss has 12,568 strips, enough for every multiprocessor.
TEST(CudaRecipe, LogitsOfFewRowsAreStreamedByACtaOnEveryMultiprocessor) {
  for (const Family family : kFamilies) {
    const Plan plan = plan_for_recipes(name(family));
    for (const int rows : {1, 2, 8, 9, 64}) {
      const UnembedRecipe recipe = unembed_recipe(plan, 201088, 2880, rows);
      const bool is_streamed = plan.row(Operation::kUnembed, rows).pass.columns == kMaxColumns;
      ASSERT_EQ(recipe.launch.has_value(), is_streamed) << name(family) << ' ' << rows;
      if (!is_streamed) continue;
      EXPECT_EQ(recipe.launch->num_ctas, static_cast<unsigned>(plan.target().num_multiprocessors));
      EXPECT_EQ(recipe.launch->num_passes, static_cast<unsigned>((rows + recipe.launch->stream.columns - 1) /
                                                                 recipe.launch->stream.columns));
    }
  }
}

}  // namespace
}  // namespace nibble::cuda
