// LoRA adapters that requests choose: they are not merged into the model's weights.
#include <limits>

#include "model/adapter/request_adapter.h"
#include "tests/model/adapter/adapter_fixture.h"

namespace nibble::adapter_tests {
namespace {

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
}  // namespace nibble::adapter_tests
