// Compares costs with figures for gpt-oss-20b and -120b that were computed without this code, from the
// architecture and the sizes of the released files.
#include "model/ops.h"

#include <gtest/gtest.h>

#include "tests/folders.h"
#include "tests/model/small_model.h"

namespace nibble {
namespace {

const Config k20b = *named_config("gpt-oss-20b");
const Config k120b = *named_config("gpt-oss-120b");

Cost of(const std::vector<OperationCost>& costs, Operation operation) {
  for (const OperationCost& row : costs)
    if (row.operation == operation) return row.cost;
  ADD_FAILURE() << "no operation " << name(operation);
  return {};
}

TEST(TensorSpecs, AddUpToTheReleasedFiles) {
  EXPECT_EQ(tensor_specs(k20b).size(), 459u);
  EXPECT_EQ(tensor_specs(k120b).size(), 687u);
  EXPECT_EQ(total_bytes(tensor_specs(k20b)), 13'761'264'768u);
  EXPECT_EQ(total_bytes(tensor_specs(k120b)), 65'248'815'744u);
}

TEST(ParameterCount, IsTheOneInTheNamesOfTheModels) {
  EXPECT_EQ(count_parameters(k20b).total, 20'914'757'184u);
  EXPECT_EQ(count_parameters(k120b).total, 116'829'156'672u);
  EXPECT_EQ(count_parameters(k20b).active, 3'608'310'144u);
  EXPECT_EQ(count_parameters(k120b).active, 5'132'852'352u);
}

TEST(StepCost, ADecodedTokenReadsTheseWeights) {
  EXPECT_EQ(total(step_costs(k20b, {}, 1, 1)).weight_bytes, 3'708'089'088u);
  EXPECT_EQ(total(step_costs(k120b, {}, 1, 1)).weight_bytes, 5'002'907'904u);
}

TEST(StepCost, OtherFormatsAreOtherData) {
  StorageFormats formats;
  formats.qkv = formats.attention_output = formats.unembedding = Format::kMxfp4;
  EXPECT_EQ(total(step_costs(k20b, formats, 1, 1)).weight_bytes, 1'921'878'528u);
  EXPECT_EQ(total(step_costs(k120b, formats, 1, 1)).weight_bytes, 2'748'893'184u);
  // FP8 takes one byte per element and 4 bytes per row.
  formats.qkv = formats.attention_output = formats.unembedding = Format::kE4m3;
  EXPECT_EQ(total(step_costs(k20b, formats, 1, 1)).weight_bytes,
            3'708'089'088u - (637'009'920u + 579'133'440u) + 4u * (24 * (5120 + 2880) + 201'088));
  formats.qkv = formats.attention_output = formats.unembedding = Format::kMxfp4;
  formats.router = Format::kMxfp4;
  EXPECT_EQ(total(step_costs(k20b, formats, 1, 1)).weight_bytes, 1'918'629'888u);
  EXPECT_EQ(total(step_costs(k120b, formats, 1, 1)).weight_bytes, 2'729'401'344u);
}

TEST(StepCost, TheActiveExpertsAloneReadThese) {
  const auto experts = [](const Config& config) {
    const auto costs = step_costs(config, {}, 1, 1);
    const size_t num_active = static_cast<size_t>(config.num_layers) * 4;
    return of(costs, Operation::kExpertsUp).weight_bytes + of(costs, Operation::kExpertsDown).weight_bytes -
           num_active * (5760 + 2880) * 2;  // without the BF16 biases of up (5,760) and down (2,880)
  };
  EXPECT_EQ(experts(k20b), 1'269'043'200u);
  EXPECT_EQ(experts(k120b), 1'903'564'800u);
  EXPECT_EQ(of(step_costs(k20b, {}, 1, 1), Operation::kUnembed).weight_bytes, 1'158'266'880u);
}

TEST(StepCost, ADecodedTokenReadsThisMuchOfTheKvCache) {
  EXPECT_EQ(of(step_costs(k20b, {}, 1, 32'768), Operation::kAttend).kv_bytes, 808'452'096u);
  EXPECT_EQ(of(step_costs(k120b, {}, 1, 32'768), Operation::kAttend).kv_bytes, 1'212'678'144u);
  EXPECT_EQ(of(step_costs(k20b, {}, 1, 32'768), Operation::kQkv).kv_bytes, 49'152u);  // bytes written
}

TEST(KvCache, HoldsThisMuch) {
  EXPECT_EQ(kv_cache_bytes(k20b, Format::kBf16, 1), 49'152u);
  EXPECT_EQ(kv_cache_bytes(k120b, Format::kBf16, 1), 73'728u);
  EXPECT_EQ(kv_cache_bytes(k20b, Format::kBf16, 1001) - kv_cache_bytes(k20b, Format::kBf16, 1000), 24'576u);
  EXPECT_EQ(kv_cache_bytes(k20b, Format::kBf16, 131'072), 3'224'371'200u);
  EXPECT_EQ(kv_cache_bytes(k120b, Format::kBf16, 131'072), 4'836'556'800u);
}

TEST(StepCost, TokensOfAStepShareWeightsButNotWork) {
  const Cost one = total(step_costs(k20b, {}, 1, 1000)), many = total(step_costs(k20b, {}, 1000, 1000));
  // A thousand tokens read every expert, but only a few rows of the embedding.
  EXPECT_LT(many.weight_bytes, total_bytes(tensor_specs(k20b)));
  EXPECT_GT(many.weight_bytes, total_bytes(tensor_specs(k20b)) - size_t{201088} * 2880 * 2);
  EXPECT_GT(many.flops, 600 * one.flops);
}

TEST(StepCost, SequencesShareWeightsButNotTheirCaches) {
  const auto one = step_costs(k120b, {}, 1, 1000), many = step_costs(k120b, {}, 1, 1000, 64),
             run = step_costs(k120b, {}, 64, 1000);
  EXPECT_EQ(of(many, Operation::kAttend).kv_bytes, 64 * of(one, Operation::kAttend).kv_bytes);
  EXPECT_EQ(of(many, Operation::kAttend).weight_bytes, of(one, Operation::kAttend).weight_bytes);
  EXPECT_EQ(total(many).flops, 64 * total(one).flops);
  for (const Operation operation : {Operation::kQkv, Operation::kExpertsUp, Operation::kExpertsDown})
    EXPECT_EQ(of(many, operation).bytes_touched(), of(run, operation).bytes_touched());
  EXPECT_EQ(of(many, Operation::kUnembed).weight_bytes, of(one, Operation::kUnembed).weight_bytes);
}

TEST(StepCost, ADecodedTokenComputesTwiceItsActiveParameters) {
  // Each active weight is used in one product, except the embedding row, biases, norms and sinks.
  const auto costs = step_costs(k20b, {}, 1, 1);
  const size_t weights = 637'009'920 + 579'133'440 + 2'211'840 + 24 * 99'532'800ull;
  EXPECT_EQ(total(costs).flops - of(costs, Operation::kRmsNorm).flops - of(costs, Operation::kAttend).flops,
            2 * weights);
}

TEST(Attend, SeesWhatTheMaskLeaves) {
  // With a window of 4, the 5 tokens at positions 7 to 11 attend to 4 positions each, in all to 4 to 11.
  const Attend sliding{.num_tokens = 5,
                       .context = 12,
                       .window = 4,
                       .num_heads = 6,
                       .num_kv_heads = 2,
                       .head_dim = 16,
                       .vectors = Format::kBf16,
                       .kv = Format::kBf16};
  EXPECT_EQ(cost(sliding).flops, 4u * (5 * 4) * 6 * 16);
  EXPECT_EQ(cost(sliding).kv_bytes, 2u * 8 * 2 * 16 * 2);
  EXPECT_EQ(cost(sliding).weight_bytes, 6u * 2);
  Attend full = sliding;
  full.window = 0;
  EXPECT_EQ(cost(full).flops, 4u * (8 + 9 + 10 + 11 + 12) * 6 * 16);
  EXPECT_EQ(cost(full).kv_bytes, 2u * 12 * 2 * 16 * 2);
}

TEST(ExpertsHit, GrowWithTheTokensOfAStep) {
  EXPECT_DOUBLE_EQ(expected_experts_hit(32, 4, 1), 4);
  EXPECT_NEAR(expected_experts_hit(32, 4, 4), 13.2, 0.05);
  EXPECT_NEAR(expected_experts_hit(128, 4, 8), 28.7, 0.05);
}

TEST(Formats, AreReadOffTheWeights) {
  const Weights tiny = open_weights(test::source_path("models/tiny-gpt-oss"));
  const StorageFormats formats = formats_of(tiny);
  EXPECT_EQ(total(step_costs(tiny.config, formats, 1, 1)).weight_bytes,
            total(step_costs(tiny.config, {}, 1, 1)).weight_bytes);
}

}  // namespace
}  // namespace nibble
