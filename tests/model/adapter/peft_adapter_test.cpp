// LoRA adapters of PEFT: which dense matrices they change, and by how much.
#include "tests/model/adapter/adapter_fixture.h"

namespace nibble::adapter_tests {
namespace {

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
  const std::filesystem::path folder = write();
  write_text(folder / "adapter_config.json",
             R"({"peft_type": "LORA", "r": 8, "lora_alpha": 8, "rank_pattern": {"v_proj": 4}})");
  EXPECT_THAT(error_of([&] { open_adapter(folder, config_); }),
              HasSubstr("have rank 4, but adapter_config.json says 8"))
      << "the pattern of another module says nothing about q";
  EXPECT_EQ(write_config(R"(, "use_rslora": true)"), std::pair(4.0F, static_cast<float>(8 / std::sqrt(8.0))));
  EXPECT_EQ(write_config(R"(, "alpha_pattern": {"self_attn.k_proj": 32, "proj": 3})"), std::pair(2.0F, 4.0F));
  tensors_.clear();
  add_pair(q, 4, 64, 96);
  add_pair(k, 4, 64, 32);
  EXPECT_EQ(scales(R"(, "alpha_pattern": {"layers.1.self_attn.q_proj": 1})"), std::pair(0.25F, 2.0F));
  EXPECT_THAT(error_of_opening(R"(, "alpha_pattern": {"^q_proj": 1})"),
              HasSubstr("expected names of modules, not regular expressions"));
}

TEST_F(Adapters, AreDescribedByRankScaleAndNumbersOfMatrices) {
  add_pair("model.layers.1.self_attn.q_proj", 4, 64, 96);
  add_pair("model.layers.2.self_attn.q_proj", 4, 64, 96);
  add_pair("model.layers.1.mlp.experts", 20, 96, 64);
  EXPECT_EQ(describe(open(), 0.5F), "rank 4, scale 1: q 2, experts' down 5");
}

}  // namespace
}  // namespace nibble::adapter_tests
