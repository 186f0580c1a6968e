// LoRA adapters from files: which matrices they change, and by how much. Expected values are computed here in
// double precision, from the definitions of PEFT and of llama.cpp.
#include "model/adapter/adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <functional>
#include <limits>
#include <tuple>

#include "core/numbers/random.h"
#include "formats/ggml_blocks.h"
#include "formats/gguf_writer.h"
#include "formats/mxfp4.h"
#include "model/adapter/merge_adapters.h"
#include "model/adapter/request_adapter.h"
#include "model/checkpoint/synthetic.h"
#include "model/checkpoint/write_checkpoint.h"
#include "model/convert_experts.h"
#include "tests/error_of.h"
#include "tests/model/expanded_experts.h"
#include "tests/model/fp8_checkpoint.h"

namespace nibble {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kPrefix{"base_model.model."};

// A matrix of random numbers of about 0.1, as a tensor, and its values after rounding to the dtype.
struct Random {
  Random(const Shape& shape, DType dtype, uint64_t seed) : shape(shape) {
    values.resize(*num_elements(shape));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(random_unit(seed, i) - 0.5) / 4;
    tensor = as_dtype(values, shape, dtype);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = dtype == DType::kBf16  ? to_float(to_bf16(values[i]))
                  : dtype == DType::kF16 ? to_float(to_f16(values[i]))
                                         : values[i];
  }
  double at(size_t row, size_t col) const { return values[row * shape[1] + col]; }

  Shape shape;
  std::vector<float> values;
  OwnedTensor tensor;
};

// Expects `merged` to be `base` plus delta(row, col), with a relative error up to `tolerance`.
void expect_sum(const Matrix& merged, const Matrix& base, double tolerance,
                const std::function<double(size_t row, size_t col)>& delta) {
  const std::vector<float> is = values_of(merged, 1), was = values_of(base, 1);
  ASSERT_EQ(is.size(), was.size());
  const auto cols = static_cast<size_t>(base.cols);
  double changed = 0;
  for (size_t i = 0; i < is.size(); ++i) {
    const double change = delta(i / cols, i % cols), expected = was[i] + change;
    changed += std::abs(change);
    ASSERT_NEAR(is[i], expected, std::abs(expected) * tolerance + 1e-6) << i / cols << ", " << i % cols;
  }
  EXPECT_GT(changed, 0);
}
constexpr double kBf16{0x1p-8 * 1.01}, kFp8{0x1p-4 * 1.01};

class Adapters : public testing::Test {
 protected:
  Adapters() {
    write_checkpoint(synthetic_source(config_, "synthetic"), folder_.path() / "model");
    base_ = std::make_shared<const Weights>(open_weights(folder_.path() / "model"));
  }

  const Random& add(const std::string& name, const Shape& shape, DType dtype = DType::kF32) {
    made_.push_back(std::make_unique<Random>(shape, dtype, ++seed_));
    tensors_[kPrefix + name] = made_.back()->tensor;
    return *made_.back();
  }
  std::pair<const Random&, const Random&> add_pair(const std::string& module, uint64_t rank, uint64_t in,
                                                   uint64_t out, DType dtype = DType::kF32) {
    const Random& a = add(module + ".lora_A.weight", {rank, in}, dtype);
    return {a, add(module + ".lora_B.weight", {out, rank}, dtype)};
  }
  // Writes the tensors and a configuration with these fields in addition to the necessary ones.
  std::filesystem::path write(const std::string& fields = {}) const {
    const std::filesystem::path folder = folder_.path() / "adapter";
    std::filesystem::create_directories(folder);
    write_checkpoint(folder / "adapter_model.safetensors", tensors_, "{}");
    std::filesystem::remove(folder / "config.json");
    write_text(
        folder / "adapter_config.json",
        fmt::format(R"({{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none", "use_dora": false,
                           "target_modules": ["q_proj"], "modules_to_save": null, "rank_pattern": {{}}{}}})",
                    fields));
    return folder;
  }
  Adapter open(const std::string& fields = {}) const { return open_adapter(write(fields), config_); }
  std::string error_of_opening(const std::string& fields = {}) const {
    const std::string error = error_of([&] { open(fields); });
    EXPECT_THAT(error, AllOf(HasSubstr("adapter"), Not(HasSubstr("\n"))));
    return error;
  }
  std::shared_ptr<const Weights> merged_into(const Weights& base,
                                             const std::vector<ScaledAdapter>& adapters) {
    const auto experts = with_expert_updates(std::make_shared<const Weights>(base), adapters);
    return merge_into_dense(*experts, adapters, pool_).weights;
  }
  std::shared_ptr<const Weights> merged(const Adapter& adapter, float scale = 1) {
    return merged_into(*base_, {{std::make_shared<const Adapter>(adapter), scale}});
  }
  // Experts of all layers after conversion to float32, as a backend that runs every format gets them.
  std::shared_ptr<const Weights> merged_experts(const Adapter& adapter, float scale = 1) {
    Weights weights = *merged(adapter, scale);
    decide_experts(weights, {.runs = [](Format) { return true; }, .backend = "test"}, pool_);
    return convert_experts(std::make_shared<const Weights>(std::move(weights)), pool_);
  }
  Matrix base_expert(AdaptedMatrix matrix, size_t layer, int expert) const {
    const LayerWeights& of_layer = base_->layers[layer];
    return (matrix == AdaptedMatrix::kGateUp ? of_layer.gate_up : of_layer.down).matrix(expert);
  }
  // Expects the update of an expert.
  void expect_expert(const Weights& weights, AdaptedMatrix matrix, int expert,
                     const std::function<double(size_t row, size_t col)>& delta) const {
    const LayerWeights& layer = weights.layers[1];
    const ExpertMatrices& experts = matrix == AdaptedMatrix::kGateUp ? layer.gate_up : layer.down;
    const Matrix base = base_expert(matrix, 1, expert);
    const std::vector<float> all = values_of(experts.first, config_.num_experts);
    const size_t size = all.size() / 5, cols = static_cast<size_t>(base.cols);
    const std::vector<float> was = values_of(base, 1);
    for (size_t i = 0; i < size; ++i)
      ASSERT_NEAR(all[static_cast<size_t>(expert) * size + i], was[i] + delta(i / cols, i % cols), 1e-5) << i;
  }

  const TestFolder folder_;
  const Config config_{small_config()};  // H 64, I 96, 5 experts, q 96 rows, k and v 32, vocabulary 99
  std::shared_ptr<const Weights> base_;
  OwnedTensors tensors_;
  std::vector<std::unique_ptr<Random>> made_;
  uint64_t seed_{0};
  ThreadPool pool_{2};
};

double product(const Random& b, const Random& a, size_t row, size_t col) {
  double sum = 0;
  for (size_t k = 0; k < a.shape[0]; ++k) sum += b.at(row, k) * a.at(k, col);
  return sum;
}

// PEFT

TEST_F(Adapters, OfPeftAddAlphaOverRankTimesBAToEveryDenseMatrix) {
  struct Case {
    std::string module;
    uint64_t rows, cols;
    const Matrix& (*of)(const Weights&);
  };
  const Case cases[] = {
      {"model.layers.1.self_attn.q_proj", 96, 64,
       [](const Weights& w) -> const Matrix& { return w.layers[1].q; }},
      {"model.layers.1.self_attn.k_proj", 32, 64,
       [](const Weights& w) -> const Matrix& { return w.layers[1].k; }},
      {"model.layers.1.self_attn.v_proj", 32, 64,
       [](const Weights& w) -> const Matrix& { return w.layers[1].v; }},
      {"model.layers.1.self_attn.o_proj", 64, 96,
       [](const Weights& w) -> const Matrix& { return w.layers[1].o; }},
      {"model.layers.1.mlp.router", 5, 64,
       [](const Weights& w) -> const Matrix& { return w.layers[1].router; }},
      {"lm_head", 99, 64, [](const Weights& w) -> const Matrix& { return w.unembedding; }},
  };
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    tensors_.clear();
    std::vector<std::pair<const Random&, const Random&>> factors;
    for (const Case& it : cases) factors.push_back(add_pair(it.module, 4, it.cols, it.rows, dtype));
    const auto weights = merged(open(), 0.5F);
    for (size_t n = 0; n < std::size(cases); ++n) {
      EXPECT_EQ(cases[n].of(*weights).format(), Format::kBf16);
      expect_sum(cases[n].of(*weights), cases[n].of(*base_), kBf16, [&](size_t row, size_t col) {
        return 0.5 * 8 / 4 * product(factors[n].second, factors[n].first, row, col);
      });
    }
    EXPECT_EQ(weights->layers[0].q.elements().data, base_->layers[0].q.elements().data) << "not adapted";
    EXPECT_EQ(weights->embedding.elements().data, base_->embedding.elements().data);
  }
}

TEST_F(Adapters, OfPeftHaveTheTransposedProductForTheEmbedding) {
  const Random& a = add("model.embed_tokens.lora_embedding_A", {4, 99});
  const Random& b = add("model.embed_tokens.lora_embedding_B", {64, 4});
  add("model.embed_tokens.base_layer.weight", {99, 64});  // PEFT saves it unchanged
  expect_sum(merged(open())->embedding, base_->embedding, kBf16,
             [&](size_t row, size_t col) { return 2 * product(b, a, col, row); });
  add("model.embed_tokens.base_layer.weight", {100, 64});
  EXPECT_THAT(error_of_opening(),
              HasSubstr("(F32 [100, 64]) is the base model's; the model has [99, 64] there"));
}

TEST_F(Adapters, ThatAreSeveralAreAddedInFloat32BeforeOneRounding) {
  const auto ab = add_pair("model.layers.1.self_attn.q_proj", 4, 64, 96);
  const Random &a = ab.first, &b = ab.second;
  const auto one = std::make_shared<const Adapter>(open()), other = std::make_shared<const Adapter>(open());
  const auto weights = merged_into(*base_, {{one, 0.75F}, {other, -0.75F}});
  const std::vector<float> is = values_of(weights->layers[1].q, 1), was = values_of(base_->layers[1].q, 1);
  for (size_t i = 0; i < is.size(); ++i) ASSERT_NEAR(is[i], was[i], 1e-7) << "the sums cancel";
  expect_sum(merged_into(*base_, {{one, 0.75F}, {other, 0.5F}})->layers[1].q, base_->layers[1].q, kBf16,
             [&](size_t row, size_t col) { return 2 * 1.25 * product(b, a, row, col); });
}

TEST_F(Adapters, ScaleByTheSquareRootOfTheRankAndByPatternsOfModules) {
  const std::string q = "model.layers.1.self_attn.q_proj", k = "model.layers.1.self_attn.k_proj";
  add_pair(q, 4, 64, 96);
  add_pair(k, 8, 64, 32);
  const auto scales = [&](const std::string& fields) {
    const Adapter adapter = open(fields);
    return std::pair(adapter.updates.at(1).update.scale, adapter.updates.at(0).update.scale);  // q, k
  };
  const std::string ranks = R"(, "rank_pattern": {"k_proj": 8})";
  EXPECT_THAT(error_of_opening(), HasSubstr("have rank 8, but adapter_config.json says 4"));
  // A second rank_pattern would be a duplicate, so the configuration is made anew.
  const auto write_config = [&](const std::string& fields) {
    const std::filesystem::path folder = write();
    write_text(folder / "adapter_config.json",
               R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8)" + ranks + fields + "}");
    const Adapter adapter = open_adapter(folder, config_);
    return std::pair(adapter.updates.at(1).update.scale, adapter.updates.at(0).update.scale);
  };
  EXPECT_EQ(write_config(""), std::pair(2.0F, 1.0F));
  EXPECT_EQ(write_config(R"(, "use_rslora": true)"), std::pair(4.0F, static_cast<float>(8 / std::sqrt(8.0))));
  EXPECT_EQ(write_config(R"(, "alpha_pattern": {"self_attn.k_proj": 32, "proj": 3})"), std::pair(2.0F, 4.0F));
  tensors_.clear();
  add_pair(q, 4, 64, 96);
  add_pair(k, 4, 64, 32);
  EXPECT_EQ(scales(R"(, "alpha_pattern": {"layers.1.self_attn.q_proj": 1})"), std::pair(0.25F, 2.0F));
  EXPECT_THAT(error_of_opening(R"(, "alpha_pattern": {"^q_proj": 1})"),
              HasSubstr("expected names of modules, not regular expressions"));
}

// Experts

TEST_F(Adapters, OfFusedExpertsHaveTheSumsOfPeft) {
  constexpr uint64_t kRank{4}, kAll{5 * kRank};
  // The parameters are gate_up_proj [5, 64, 192] and down_proj [5, 96, 64], as transformers has them, or with
  // the last two extents exchanged; peft: einsum("o r e, e r i -> e i o"), or "-> e o i".
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

// Formats of the base

TEST_F(Adapters, KeepFp8AndFloat32AndTurnBlocksIntoBf16) {
  const std::string q = "model.layers.1.self_attn.q_proj", v = "model.layers.1.self_attn.v_proj",
                    o = "model.layers.1.self_attn.o_proj";
  OwnedTensors tensors = read_tensors(folder_.path() / "model");
  make_fp8(tensors, q, {});
  for (const auto& [name, dtype] : {std::pair(v, DType::kF32), std::pair(o, DType::kF16)}) {
    OwnedTensor& tensor = tensors.at(name + ".weight");
    tensor = as_dtype(float_values(tensor), tensor.shape, dtype);
  }
  const std::filesystem::path file = folder_.path() / "mixed.safetensors";
  write_checkpoint(file, tensors, with_fp8_quantization(to_json(config_)));
  const Weights base = open_weights(file);
  const auto [qa, qb] = add_pair(q, 4, 64, 96);
  const auto [va, vb] = add_pair(v, 4, 64, 32);
  const auto [oa, ob] = add_pair(o, 4, 96, 64);
  const auto weights = merged_into(base, {{std::make_shared<const Adapter>(open())}});
  const LayerWeights &is = weights->layers[1], &was = base.layers[1];
  EXPECT_EQ(is.q.elements().format, Format::kE4m3);
  EXPECT_EQ(is.v.elements().format, Format::kF32);
  EXPECT_EQ(is.o.elements().format, Format::kBf16);
  const auto sum = [](const Random& b, const Random& a) {
    return [&](size_t row, size_t col) { return 2 * product(b, a, row, col); };
  };
  expect_sum(is.v, was.v, 1e-6, sum(vb, va));
  expect_sum(is.o, was.o, kBf16, sum(ob, oa));
  const std::vector<float> fp8 = values_of(is.q, 1), before = values_of(was.q, 1);
  for (size_t row = 0; row < 96; ++row) {
    double largest = 0;
    for (size_t c = 0; c < 64; ++c) largest = std::max<double>(largest, std::abs(fp8[row * 64 + c]));
    for (size_t c = 0; c < 64; ++c) {
      const double expected = before[row * 64 + c] + 2 * product(qb, qa, row, c);
      ASSERT_NEAR(fp8[row * 64 + c], expected, std::abs(expected) * kFp8 + largest * 0x1p-17);
    }
  }
}

// Pages that no one may read.
class Unreadable {
 public:
  explicit Unreadable(size_t bytes)
      : bytes_(bytes), data_(::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Unreadable() { ::munmap(data_, bytes_); }
  Unreadable(const Unreadable&) = delete;
  Unreadable& operator=(const Unreadable&) = delete;
  const void* data() const { return data_; }

 private:
  size_t bytes_;
  void* data_;
};

TEST_F(Adapters, AreDescribedWithTheFormatsOfMergedMatricesWithoutReadingAny) {
  const Unreadable pages(size_t{1} << 20);
  ASSERT_NE(pages.data(), MAP_FAILED);
  Weights base = *base_;
  LayerWeights& layer = base.layers[1];
  const auto* scales = static_cast<const float*>(pages.data());
  layer.q.stored = Elements{.format = Format::kE4m3, .data = pages.data(), .row_scales = scales};
  layer.v.stored = Elements{.format = Format::kF32, .data = pages.data()};
  layer.o.stored = Blocks{.type = GgmlType::kQ8_0, .rows = static_cast<const std::byte*>(pages.data())};
  base.embedding.stored = Elements{.format = Format::kBf16, .data = pages.data()};
  for (const auto& [name, in, out] :
       {std::tuple("q", 64U, 96U), std::tuple("v", 64U, 32U), std::tuple("o", 96U, 64U)})
    add_pair(fmt::format("model.layers.1.self_attn.{}_proj", name), 4, in, out);
  const ScaledAdapter adapters[] = {{std::make_shared<const Adapter>(open())}};
  const auto described = describe_merged(std::make_shared<const Weights>(base), adapters);
  const LayerWeights& is = described->layers[1];
  EXPECT_EQ(is.q.elements().format, Format::kE4m3);
  EXPECT_EQ(is.v.elements().format, Format::kF32);
  EXPECT_EQ(is.o.elements().format, Format::kBf16);
  for (const Matrix* matrix : {&is.q, &is.v, &is.o})
    EXPECT_THAT(values_of(*matrix, 1), testing::Each(0)) << "kernels are listed with these values";
  EXPECT_EQ(is.k.elements().data, layer.k.elements().data);
  EXPECT_EQ(described->embedding.elements().data, pages.data());
}

TEST_F(Adapters, TurnALayerOfAnotherProgramIntoBf16) {
  const std::string q = "model.layers.1.self_attn.q_proj";
  OwnedTensors tensors = read_tensors(folder_.path() / "model");
  OwnedTensor& codes = tensors.at(q + ".weight");  // MLX: 8 bits, one group of 64 columns
  codes = {DType::kU32, {96, 16}, std::vector<std::byte>(96 * 64)};
  for (size_t i = 0; i < codes.bytes.size(); ++i) codes.bytes[i] = static_cast<std::byte>(i * i % 251);
  tensors[q + ".scales"] = as_dtype(std::vector<float>(96, 0x1p-8F), {96, 1}, DType::kF16);
  tensors[q + ".biases"] = as_dtype(std::vector<float>(96, -0.5F), {96, 1}, DType::kF16);
  const std::filesystem::path file = folder_.path() / "mlx.safetensors";
  write_checkpoint(file, tensors, to_json(config_));
  const Weights base = open_weights(file);
  const auto [a, b] = add_pair(q, 4, 64, 96);
  const auto weights = merged_into(base, {{std::make_shared<const Adapter>(open())}});
  const Matrix& is = weights->layers[1].q;
  EXPECT_EQ(is.elements().format, Format::kBf16);
  const std::vector<float> merged = values_of(is, 1);
  for (size_t i = 0; i < merged.size(); ++i) {
    const double was = static_cast<double>(i * i % 251) * 0x1p-8 - 0.5,
                 expected = was + 2 * product(b, a, i / 64, i % 64);
    ASSERT_NEAR(merged[i], expected, std::abs(expected) * kBf16 + 1e-6) << i;
  }
}

// GGUF

class GgufAdapters : public Adapters {
 protected:
  void put(const std::string& name, const Shape& shape, GgmlType type = GgmlType::kF32) {
    made_.push_back(std::make_unique<Random>(shape, DType::kF32, ++seed_));
    std::vector<float>& values = made_.back()->values;
    std::vector<std::byte> bytes(num_bytes(GgufEntry{name, type, shape}));
    if (type == GgmlType::kQ8_0) {
      quantise_q8_0(values, bytes);
      dequantise(type, bytes, values);
    } else {
      std::memcpy(bytes.data(), values.data(), bytes.size());
    }
    entries_.push_back({name, type, shape});
    data_.push_back(bytes);
  }
  std::filesystem::path write(float alpha = 8) {
    const std::filesystem::path file = folder_.path() / "adapter.gguf";
    GgufMetadata metadata;
    for (const auto& [key, value] : keys_) metadata.add(key, std::string_view(value));
    metadata.add("adapter.lora.alpha", alpha);
    GgufWriter writer(file, metadata, entries_);
    for (const auto& bytes : data_) writer.append(bytes);
    writer.finish();
    return file;
  }
  Adapter open(float alpha = 8) { return open_adapter(write(alpha), config_); }
  const Random& values(size_t n) const { return *made_[n]; }

  std::map<std::string, std::string> keys_{
      {"general.type", "adapter"}, {"general.architecture", "gpt-oss"}, {"adapter.type", "lora"}};
  std::vector<GgufEntry> entries_;
  std::vector<std::vector<std::byte>> data_;
};

TEST_F(GgufAdapters, AddAlphaOverRankTimesBA) {
  put("blk.1.attn_output.weight.lora_a", {32, 96}, GgmlType::kQ8_0);
  put("blk.1.attn_output.weight.lora_b", {64, 32}, GgmlType::kQ8_0);
  put("token_embd.weight.lora_a", {99, 4});
  put("token_embd.weight.lora_b", {64, 4});
  put("blk.1.ffn_gate_inp.weight.lora_a", {4, 64});
  put("blk.1.ffn_gate_inp.weight.lora_b", {5, 4});
  const auto weights = merged(open());
  expect_sum(weights->layers[1].o, base_->layers[1].o, kBf16,
             [&](size_t row, size_t col) { return 0.25 * product(values(1), values(0), row, col); });
  expect_sum(weights->embedding, base_->embedding, kBf16, [&](size_t row, size_t col) {
    double sum = 0;
    for (size_t k = 0; k < 4; ++k) sum += values(2).at(row, k) * values(3).at(col, k);
    return 2 * sum;
  });
  expect_sum(weights->layers[1].router, base_->layers[1].router, kBf16,
             [&](size_t row, size_t col) { return 2 * product(values(5), values(4), row, col); });
  expect_sum(merged(open(0))->layers[1].o, base_->layers[1].o, kBf16,
             [&](size_t row, size_t col) { return product(values(1), values(0), row, col); });
}

TEST_F(GgufAdapters, ChangeExpertsOfOneTensor) {
  put("blk.1.ffn_up_exps.weight.lora_a", {5, 4, 64});
  put("blk.1.ffn_up_exps.weight.lora_b", {5, 96, 4});
  put("blk.1.ffn_down_exps.weight.lora_a", {5, 4, 96});
  put("blk.1.ffn_down_exps.weight.lora_b", {5, 64, 4});
  const auto weights = merged_experts(open());
  const auto sum = [&](size_t n, size_t expert, size_t row, size_t col) {
    const Shape &a = values(n).shape, &b = values(n + 1).shape;
    double total = 0;
    for (size_t k = 0; k < 4; ++k)
      total += 2.0 * values(n + 1).values[(expert * b[1] + row) * 4 + k] *
               values(n).values[(expert * 4 + k) * a[2] + col];
    return total;
  };
  for (const int expert : {0, 4}) {
    const auto e = static_cast<size_t>(expert);
    expect_expert(*weights, AdaptedMatrix::kGateUp, expert,
                  [&](size_t row, size_t col) { return row % 2 == 1 ? sum(0, e, row / 2, col) : 0; });
    expect_expert(*weights, AdaptedMatrix::kDown, expert,
                  [&](size_t row, size_t col) { return sum(2, e, row, col); });
  }
}

TEST_F(GgufAdapters, WithFactorsWithoutDimensionsAreRefused) {
  put("blk.1.attn_q.weight.lora_a", {4, 64});
  put("blk.1.attn_q.weight.lora_b", {});
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("do not fit the matrix [96, 64]"));
}

TEST_F(GgufAdapters, OfAnotherKindAreRefused) {
  put("blk.1.attn_q.weight.lora_a", {4, 64});
  put("blk.1.attn_q.weight.lora_b", {96, 4});
  EXPECT_EQ(error_of([&] { open(); }), "accepted");
  const auto error_with = [&](const std::string& key, const std::string& value) {
    const auto keys = keys_;
    keys_[key] = value;
    const std::string error = error_of([&] { open(); });
    keys_ = keys;
    return error;
  };
  EXPECT_THAT(error_with("general.type", "model"),
              HasSubstr("general.type is \"model\"; expected \"adapter\""));
  EXPECT_THAT(error_with("general.architecture", "llama"), HasSubstr("not a LoRA adapter of gpt-oss"));
  EXPECT_EQ(error_with("general.architecture", "gptoss"), "accepted");
  EXPECT_THAT(error_with("adapter.alora.invocation_tokens", "x"), HasSubstr("activated LoRA"));
  EXPECT_THAT(error_of([&] { open(std::numeric_limits<float>::quiet_NaN()); }),
              HasSubstr("adapter.lora.alpha"));
  put("blk.2.attn_norm.weight", {64});
  EXPECT_THAT(error_of([&] { open(); }),
              HasSubstr("\"blk.2.attn_norm.weight\" (F32 [64]) is not of a low-rank"));
  entries_.back() = {"blk.3.attn_q.weight.lora_a", GgmlType::kF32, {64}};
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("has no partner"));
  put("blk.3.attn_q.weight.lora_b", {64});
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("is of a matrix that the model (3 layers) does not have"));
  entries_.resize(2);
  data_.resize(2);
  entries_[0].shape = {2, 128};
  EXPECT_THAT(error_of([&] { open(); }),
              HasSubstr("are [2, 128] and [96, 4], which do not fit the matrix [96, 64]"));
}

// What is refused

TEST_F(Adapters, WhoseConfigurationChangesMoreThanMatricesAreRefusedByName) {
  add_pair("model.layers.1.self_attn.q_proj", 4, 64, 96);
  EXPECT_EQ(error_of([&] {
              open(R"(, "task_type": "CAUSAL_LM", "lora_dropout": 0.1, "new_field": null, "eva": {})");
            }),
            "accepted");
  for (const auto& [field, meaning] : {
           std::pair(R"("use_qalora": true)", "QALoRA"),
           std::pair(R"("lora_bias": true)", "'lora_bias' says that it has biases of its own"),
           std::pair(R"("fan_in_fan_out": true)", "transposed"),
           std::pair(R"("trainable_token_indices": [1])", "replaces rows of the embedding"),
           std::pair(R"("layer_replication": [[0, 2]])", "repeated layers"),
           std::pair(R"("alora_invocation_tokens": [5])", "activated LoRA"),
           std::pair(R"("init_lora_weights": "pissa_niter_16")",
                     "'init_lora_weights' \"pissa_niter_16\" changes"),
           std::pair(R"("new_field": 1)", "unknown field \"new_field\", which may change"),
       })
    EXPECT_THAT(error_of_opening(std::string(", ") + field), HasSubstr(meaning));
  const auto error_with = [&](const std::string& json) {
    const std::filesystem::path folder = write();
    write_text(folder / "adapter_config.json", json);
    return error_of([&] { open_adapter(folder, config_); });
  };
  const std::string rest = R"("r": 4, "lora_alpha": 8})";
  EXPECT_THAT(error_with(R"({"peft_type": "LORA", "use_dora": true, )" + rest), HasSubstr("DoRA"));
  EXPECT_THAT(error_with(R"({"peft_type": "LORA", "bias": "all", )" + rest), HasSubstr("biases"));
  EXPECT_THAT(error_with(R"({"peft_type": "LORA", "modules_to_save": ["lm_head"], )" + rest),
              HasSubstr("'modules_to_save' says that it replaces whole modules"));
  EXPECT_THAT(error_with(R"({"peft_type": "LOHA", )" + rest),
              HasSubstr("'peft_type' is \"LOHA\"; expected \"LORA\""));
  EXPECT_THAT(error_with("{" + rest), HasSubstr("'peft_type' is missing"));
  EXPECT_THAT(error_with(R"({"peft_type": "LORA", "r": 4})"), HasSubstr("'lora_alpha' is missing"));
  EXPECT_THAT(error_with(R"({"peft_type": "LORA", "r": 0, "lora_alpha": 8})"), HasSubstr("'r' is 0"));
}

TEST_F(Adapters, WhoseTensorsDoNotFitTheModelAreRefusedByName) {
  const std::string q = "model.layers.1.self_attn.q_proj";
  const auto error_with = [&](const std::string& name, const Shape& shape, DType dtype = DType::kF32) {
    tensors_.clear();
    add_pair(q, 4, 64, 96);
    add(name, shape, dtype);
    return error_of_opening();
  };
  EXPECT_THAT(
      error_with(q + ".lora_A.weight", {4, 32}),
      HasSubstr(
          "are [4, 32] and [96, 4]; expected [r, 64] and [96, r] of rank r: the adapter is for another"));
  EXPECT_THAT(error_with(q + ".lora_A.weight", {3, 64}), HasSubstr("are [3, 64] and [96, 4]"));
  EXPECT_THAT(error_with(q + ".lora_A.weight", {256}), HasSubstr("is not a matrix of BF16, F16 or F32"));
  EXPECT_THAT(error_with("model.layers.3.self_attn.q_proj.lora_A.weight", {4, 64}),
              HasSubstr("has no partner"));
  EXPECT_THAT(error_with(q + ".lora_magnitude_vector", {96}), HasSubstr("holds the magnitudes of DoRA"));
  EXPECT_THAT(error_with("lm_head.weight", {99, 64}), HasSubstr("(modules_to_save)"));
  EXPECT_THAT(error_with(q + ".bias", {96}), HasSubstr("holds a bias that was trained as a whole"));
  EXPECT_THAT(error_with("model.layers.1.self_attn.sinks", {6}), HasSubstr("holds sinks"));
  EXPECT_THAT(error_with("something", {6}), HasSubstr("is not a tensor of a LoRA adapter"));
  EXPECT_THAT(error_with(q + ".lora_A.default.weight", {4, 64}), HasSubstr("is there twice"));
  for (const std::string module :
       {"model.layers.3.self_attn.q_proj", "model.layers.01.self_attn.q_proj", "model.layers.1.mlp.gate",
        "model.layers.1.mlp.experts.gate_up_projs.5", "visual.q_proj", "model.layers.3.mlp.experts"}) {
    tensors_.clear();
    add_pair(module, 20, 96, 64);
    EXPECT_THAT(error_of_opening(),
                HasSubstr("is of a module that the model (3 layers, 5 experts) does not have"))
        << module;
  }
  tensors_.clear();
  EXPECT_THAT(error_of_opening(), HasSubstr("the adapter changes no matrix"));
}

TEST_F(Adapters, WithValuesThatAreNotFiniteAreRefused) {
  add_pair("model.layers.1.self_attn.q_proj", 4, 64, 96);
  OwnedTensor& a = tensors_.at(kPrefix + std::string("model.layers.1.self_attn.q_proj.lora_A.weight"));
  const float nan = std::numeric_limits<float>::quiet_NaN(), large = 1e30F;
  std::memcpy(&a.bytes[4 * 70], &nan, 4);
  EXPECT_THAT(error_of_opening(),
              HasSubstr("the update of q of layer 1 has values that are not finite numbers"));
  std::memcpy(&a.bytes[4 * 70], &large, 4);
  const Adapter adapter = open();
  EXPECT_EQ(error_of([&] { merged(adapter); }), "accepted");
  EXPECT_THAT(error_of([&] { merged(adapter, 1e10F); }),
              AllOf(HasSubstr("q of layer 1 has values that are not finite"), Not(HasSubstr("\n"))));
}

TEST_F(Adapters, ThatMakeExpertsInfiniteAreRefused) {
  const std::string module = "model.layers.1.mlp.experts.gate_up_projs.2";
  add_pair(module, 4, 64, 192);
  const float large = 1e30F;
  std::memcpy(tensors_.at(kPrefix + module + ".lora_A.weight").bytes.data(), &large, 4);
  const Adapter adapter = open();
  EXPECT_EQ(error_of([&] { merged_experts(adapter); }), "accepted");
  EXPECT_THAT(error_of([&] { merged_experts(adapter, 1e10F); }),
              HasSubstr("experts have values that are not finite numbers"));
}

TEST_F(Adapters, WithTwoUpdatesOfAMatrixAreRefused) {
  const std::string experts = "model.layers.1.mlp.experts.";
  const auto error_with = [&](const std::string& one, const std::string& other, uint64_t rows) {
    tensors_.clear();
    add_pair(one, 4, 64, rows);
    add_pair(other, 4, 64, other.ends_with("gate_proj") || other.ends_with("up_proj") ? 96 : rows);
    return error_of([&] { open(); });
  };
  EXPECT_THAT(error_with("model.layers.1.mlp.router", "model.layers.1.mlp.router.linear", 5),
              HasSubstr("is a second update of router of layer 1"));
  EXPECT_THAT(error_with(experts + "gate_up_projs.3", experts + "3.gate_proj", 192),
              HasSubstr("is a second update of experts' gate_up of layer 1"));
  EXPECT_EQ(error_with(experts + "3.gate_proj", experts + "3.up_proj", 96), "accepted");
}

TEST_F(Adapters, WithoutTheirFilesAreRefused) {
  add_pair("model.layers.1.self_attn.q_proj", 4, 64, 96);
  const std::filesystem::path folder = write();
  EXPECT_EQ(open_adapter(folder / "adapter_model.safetensors", config_).updates.size(), 1u);
  std::filesystem::remove(folder / "adapter_config.json");
  EXPECT_THAT(error_of([&] { open_adapter(folder, config_); }),
              HasSubstr("no adapter_config.json next to the tensors"));
  std::filesystem::remove(folder / "adapter_model.safetensors");
  EXPECT_THAT(error_of([&] { open_adapter(folder, config_); }),
              HasSubstr("no adapter_model.safetensors; expected"));
  write_text(folder / "adapter_model.bin", "PK");
  EXPECT_THAT(error_of([&] { open_adapter(folder, config_); }),
              HasSubstr("only adapter_model.bin, a Python pickle"));
  EXPECT_THAT(error_of([&] { open_adapter(folder / "x", config_); }), HasSubstr("no such file or folder"));
}

TEST_F(Adapters, AreDescribedByRankScaleAndNumbersOfMatrices) {
  add_pair("model.layers.1.self_attn.q_proj", 4, 64, 96);
  add_pair("model.layers.2.self_attn.q_proj", 4, 64, 96);
  add_pair("model.layers.1.mlp.experts", 20, 96, 64);
  EXPECT_EQ(describe(open(), 0.5F), "rank 4, scale 1: q 2, experts' down 5");
}

// Adapters of requests

TEST_F(Adapters, OfRequestsHaveTheFactorsOfTheFileInFloat32AndTheScaleInB) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    tensors_.clear();
    const auto of_v = add_pair("model.layers.1.self_attn.v_proj", 4, 64, 32, dtype);
    const auto of_router = add_pair("model.layers.0.mlp.router", 4, 64, 5, dtype);
    const auto of_head = add_pair("lm_head", 4, 64, 99, dtype);
    const RequestAdapter kept = keep_apart(open(), 0.25F, config_);
    ASSERT_EQ(std::ssize(kept.layers), config_.num_layers);
    EXPECT_FALSE(kept.layers[0].v || kept.layers[1].q || kept.layers[1].router);
    const std::pair<const std::optional<DenseUpdate>&, std::pair<const Random&, const Random&>> parts[] = {
        {kept.layers[1].v, of_v}, {kept.layers[0].router, of_router}, {kept.unembedding, of_head}};
    for (const auto& [update, factors] : parts) {
      ASSERT_TRUE(update);
      EXPECT_EQ(update->rank, 4);
      EXPECT_EQ(update->a, factors.first.values);
      std::vector<float> b = factors.second.values;
      for (float& value : b) value *= 0.25F * 8 / 4;
      EXPECT_EQ(update->b, b);
    }
    EXPECT_EQ(num_bytes(RequestAdapters{kept, kept}), 2u * 4 * 4 * (64 + 32 + 64 + 5 + 64 + 99));
    EXPECT_EQ(max_rank({kept}), 4);
  }
  EXPECT_EQ(max_rank({}), 0);
}

TEST_F(Adapters, OfExpertsAndTheEmbeddingCanOnlyBeMerged) {
  const auto error_of_keeping = [&](float scale = 1) {
    const Adapter adapter = open();
    return error_of([&] { keep_apart(adapter, scale, config_); });
  };
  const auto advice =
      AllOf(HasSubstr("requests can choose only adapters of q, k, v, o, the router and lm_head: "
                      "merge this one into the model with --lora"),
            Not(HasSubstr("\n")));
  add_pair("model.layers.1.mlp.experts", 20, 96, 64);
  EXPECT_THAT(error_of_keeping(), AllOf(HasSubstr("the adapter changes experts' down of layer 1; "), advice));
  tensors_.clear();
  add("model.embed_tokens.lora_embedding_A", {4, 99});
  add("model.embed_tokens.lora_embedding_B", {64, 4});
  EXPECT_THAT(error_of_keeping(), AllOf(HasSubstr("the adapter changes embedding; "), advice));
  tensors_.clear();
  add_pair("model.layers.1.self_attn.q_proj", 4, 64, 96);
  EXPECT_EQ(error_of_keeping(), "accepted");
  EXPECT_THAT(error_of_keeping(std::numeric_limits<float>::max()),
              HasSubstr("the update of q of layer 1 has values that are not finite numbers after scaling"));
}

}  // namespace
}  // namespace nibble
