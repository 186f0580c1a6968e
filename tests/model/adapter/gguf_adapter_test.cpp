// LoRA adapters in GGUF files.
#include <limits>

#include "formats/ggml_blocks.h"
#include "formats/gguf_writer.h"
#include "tests/model/adapter/adapter_fixture.h"

namespace nibble::adapter_tests {
namespace {

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

}  // namespace
}  // namespace nibble::adapter_tests
