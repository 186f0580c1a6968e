// LoRA adapters of experts: of all experts in one tensor, of single experts, and the type of the merged
// experts.
#include "formats/mxfp4.h"
#include "tests/model/adapter/adapter_fixture.h"

namespace nibble::adapter_tests {
namespace {

TEST_F(Adapters, OfFusedExpertsHaveTheSumsOfPeft) {
  constexpr uint64_t kRank{4}, kAll{5 * kRank};
  // The parameters are gate_up_proj [5, 64, 192] and down_proj [5, 96, 64], as transformers has them, or with
  // the last two extents exchanged. PEFT computes einsum("o r e, e r i -> e i o"), or "-> e o i" if they are
  // exchanged.
  for (const bool is_exchanged : {false, true}) {
    tensors_.clear();
    const std::string experts = "model.layers.1.mlp.experts";
    const auto of_up = is_exchanged ? add_pair(experts + ".base_layer", kAll, 192, 64, DType::kBf16)
                                    : add_pair(experts + ".base_layer", kAll, 64, 192, DType::kBf16);
    const Random &ua = of_up.first, &ub = of_up.second;
    const auto of_down = is_exchanged ? add_pair(experts, kAll, 64, 96) : add_pair(experts, kAll, 96, 64);
    const Random &da = of_down.first, &db = of_down.second;
    const auto weights = merged_experts(open(), 3);
    const auto delta = [&](const Random& a, const Random& b, size_t expert, size_t in, size_t out) {
      double sum = 0;
      for (size_t r = 0; r < kRank; ++r) sum += b.at(out, r * 5 + expert) * a.at(expert * kRank + r, in);
      return sum * 3 * 2;
    };
    for (const int expert : {0, 3}) {
      const auto e = static_cast<size_t>(expert);
      expect_expert(*weights, AdaptedMatrix::kGateUp, expert, [&](size_t row, size_t col) {
        return is_exchanged ? delta(ua, ub, e, row, col) : delta(ua, ub, e, col, row);
      });
      expect_expert(*weights, AdaptedMatrix::kDown, expert, [&](size_t row, size_t col) {
        return is_exchanged ? delta(da, db, e, row, col) : delta(da, db, e, col, row);
      });
    }
    EXPECT_EQ(weights->layers[0].down.first.format(), Format::kMxfp4) << "layer 0 is not adapted";
  }
}

TEST_F(Adapters, OfOneFusedParameterAreRecognisedByTheirShapes) {
  add_pair("model.layers.1.mlp.experts", 20, 96, 64);
  EXPECT_EQ(open().updates.at(4).matrix, AdaptedMatrix::kDown);
  tensors_.clear();
  add_pair("model.layers.1.mlp.experts", 20, 64, 192);
  EXPECT_EQ(open().updates.at(4).matrix, AdaptedMatrix::kGateUp);
  add_pair("model.layers.1.mlp.experts.base_layer", 20, 64, 192);
  EXPECT_THAT(error_of_opening(), HasSubstr("is a second update of experts' gate_up of layer 1"));
  tensors_.clear();
  add_pair("model.layers.1.mlp.experts", 20, 64, 96);
  add_pair("model.layers.2.mlp.experts", 20, 64, 192);
  EXPECT_THAT(error_of_opening(), HasSubstr("exchanges inputs and outputs, but"));
  tensors_.clear();
  add_pair("model.layers.1.mlp.experts", 16, 96, 64);
  EXPECT_THAT(error_of_opening(),
              HasSubstr("expected [5 r, 64] and [192, 5 r] for gate_up_proj, or [5 r, 96]"));
}

TEST_F(Adapters, OfExpertsThatAreModulesChangeOnlyThose) {
  const std::string experts = "model.layers.1.mlp.experts.";
  const auto of_up = add_pair(experts + "gate_up_projs.2", 4, 64, 192);
  const Random &ua = of_up.first, &ub = of_up.second;
  const auto of_down = add_pair(experts + "down_projs.4", 4, 96, 64);
  const Random &da = of_down.first, &db = of_down.second;
  const auto of_gate = add_pair(experts + "0.gate_proj", 4, 64, 96);
  const Random &ga = of_gate.first, &gb = of_gate.second;
  const auto of_one_up = add_pair(experts + "1.up_proj", 4, 64, 96);
  const Random &pa = of_one_up.first, &pb = of_one_up.second;
  const auto weights = merged_experts(open());
  const auto none = [](size_t, size_t) { return 0.0; };
  expect_expert(*weights, AdaptedMatrix::kGateUp, 2,
                [&](size_t row, size_t col) { return 2 * product(ub, ua, row, col); });
  expect_expert(*weights, AdaptedMatrix::kDown, 4,
                [&](size_t row, size_t col) { return 2 * product(db, da, row, col); });
  expect_expert(*weights, AdaptedMatrix::kGateUp, 0,
                [&](size_t row, size_t col) { return row % 2 == 0 ? 2 * product(gb, ga, row / 2, col) : 0; });
  expect_expert(*weights, AdaptedMatrix::kGateUp, 1,
                [&](size_t row, size_t col) { return row % 2 == 1 ? 2 * product(pb, pa, row / 2, col) : 0; });
  expect_expert(*weights, AdaptedMatrix::kGateUp, 3, none);
  expect_expert(*weights, AdaptedMatrix::kDown, 2, none);
}

TEST_F(Adapters, OfMxfp4ExpertsNeedAFormatUnlessTheyChangeNothing) {
  add_pair("model.layers.1.mlp.experts", 20, 96, 64);
  const Adapter adapter = open();
  const auto decided = [&](std::optional<Format> asked, float scale) {
    Weights weights = *merged(adapter, scale);
    decide_experts(weights,
                   {.asked = asked,
                    .runs = [](Format format) { return format == Format::kMxfp4 || format == Format::kBf16; },
                    .backend = "test"},
                   pool_);
    return weights;
  };
  EXPECT_THAT(
      error_of([&] { decided({}, 1); }),
      AllOf(HasSubstr("an adapter changes the experts, which are MXFP4, so the test backend runs them "
                      "only if they are converted when they are merged: --experts mxfp4 (147 kB), bf16"),
            Not(HasSubstr("\n"))));
  const Weights bf16 = decided(Format::kBf16, 1);
  EXPECT_EQ(describe_experts(bf16),
            "MXFP4 in the file, exactly BF16; MXFP4 in the file, changed by an adapter, rounded to BF16");
  EXPECT_EQ(describe_experts(decided(Format::kMxfp4, 1)),
            "MXFP4 in the file; MXFP4 in the file, changed by an adapter, rounded to MXFP4");
  const auto same = convert_experts(std::make_shared<const Weights>(decided({}, 0)), pool_);
  for (const LayerWeights& layer : same->layers) EXPECT_EQ(layer.down.first.format(), Format::kMxfp4);
  EXPECT_EQ(values_of(same->layers[1].down.first, 5), values_of(base_->layers[1].down.first, 5));
}

TEST_F(Adapters, RoundedToMxfp4AreNoFartherThanTheExpertsWithoutThem) {
  const auto [a, b] = add_pair("model.layers.1.mlp.experts.down_projs.3", 4, 96, 64);
  const Adapter adapter = open();
  const std::vector<float> was = values_of(base_expert(AdaptedMatrix::kDown, 1, 3), 1);
  for (const float scale : {1e-4F, 0.01F, 0.1F, 1.0F}) {
    Weights weights = *merged(adapter, scale);
    decide_experts(weights, {.asked = Format::kMxfp4, .runs = [](Format) { return true; }, .backend = "test"},
                   pool_);
    const auto made = convert_experts(std::make_shared<const Weights>(std::move(weights)), pool_);
    const std::vector<float> is = values_of(made->layers[1].down.matrix(3), 1);
    if (scale == 1e-4F) {
      EXPECT_EQ(is, was) << "the nearest numbers of MXFP4";
    }
    size_t num_nearer = 0;
    for (size_t i = 0; i < is.size(); i += kMxfp4BlockSize) {  // the parts of a row that share a scale
      std::vector<float> wanted(kMxfp4BlockSize);
      double error = 0, without = 0, by_rule = 0;
      for (size_t j = i; j < i + kMxfp4BlockSize; ++j)
        wanted[j - i] = static_cast<float>(was[j] + scale * 2 * product(b, a, j / 96, j % 96));
      const auto ocp = decode(encode(std::span(std::as_const(wanted)).first<kMxfp4BlockSize>()));
      for (size_t j = 0; j < kMxfp4BlockSize; ++j) {
        error += std::pow(is[i + j] - wanted[j], 2);
        without += std::pow(was[i + j] - wanted[j], 2);
        by_rule += std::pow(ocp[j] - wanted[j], 2);
      }
      EXPECT_LE(error, by_rule * 1.0001 + 1e-12) << "the specification's rule";
      num_nearer += error <= without * 1.0001 + 1e-12;
    }
    EXPECT_GE(num_nearer, is.size() / kMxfp4BlockSize * 95 / 100) << scale;
  }
}

TEST_F(Adapters, KeepTheTypeOfBf16Experts) {
  OwnedTensors tensors = read_tensors(folder_.path() / "model");
  expand_experts(tensors, *base_, {DType::kBf16, true});
  const std::filesystem::path file = folder_.path() / "expanded.safetensors";
  write_checkpoint(file, tensors, to_json(config_));
  const auto [a, b] = add_pair("model.layers.1.mlp.experts.down_projs.3", 4, 96, 64);
  Weights weights = *merged_into(open_weights(file), {{std::make_shared<const Adapter>(open())}});
  decide_experts(weights, {.runs = [](Format format) { return format != Format::kF32; }, .backend = "test"},
                 pool_);
  const auto made = convert_experts(std::make_shared<const Weights>(std::move(weights)), pool_);
  EXPECT_EQ(made->layers[1].gate_up.first.format(), Format::kMxfp4) << "still exact";
  ASSERT_EQ(made->layers[1].down.first.format(), Format::kBf16);
  const std::vector<float> all = values_of(made->layers[1].down.first, 5);
  const std::vector<float> was = values_of(base_expert(AdaptedMatrix::kDown, 1, 3), 1);
  for (size_t i = 0; i < was.size(); ++i) {
    const double expected = was[i] + 2 * product(b, a, i / 96, i % 96);
    ASSERT_NEAR(all[3 * was.size() + i], expected, std::abs(expected) * kBf16 + 1e-6);
  }
}

}  // namespace
}  // namespace nibble::adapter_tests
