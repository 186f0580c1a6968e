// LoRA adapters of models whose dense matrices have other types than BF16.
#include <sys/mman.h>

#include <tuple>

#include "tests/model/adapter/adapter_fixture.h"

namespace nibble::adapter_tests {
namespace {

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

}  // namespace
}  // namespace nibble::adapter_tests
