// Shared by the tests of LoRA adapters: random factors, a model, and adapters in PEFT's format. The tests
// compute expected values in double precision, from the definitions of PEFT and of llama.cpp.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/numbers/random.h"
#include "model/adapter/adapter.h"
#include "model/adapter/merge_adapters.h"
#include "model/checkpoint/synthetic.h"
#include "model/checkpoint/write_checkpoint.h"
#include "model/convert_experts.h"
#include "tests/error_of.h"
#include "tests/model/expanded_experts.h"
#include "tests/model/fp8_checkpoint.h"

namespace nibble::adapter_tests {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

inline constexpr const char* kPrefix{"base_model.model."};

// A matrix of random numbers between -0.125 and 0.125, as a tensor, and its values after rounding to the
// dtype.
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
inline void expect_sum(const Matrix& merged, const Matrix& base, double tolerance,
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
inline constexpr double kBf16{0x1p-8 * 1.01}, kFp8{0x1p-4 * 1.01};

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
  // Returns the model with the adapter merged, and with experts converted for a backend that runs every
  // format. Experts in MXFP4 that the adapter does not change stay MXFP4.
  std::shared_ptr<const Weights> merged_experts(const Adapter& adapter, float scale = 1) {
    Weights weights = *merged(adapter, scale);
    decide_experts(weights, {.runs = [](Format) { return true; }, .backend = "test"}, pool_);
    return convert_experts(std::make_shared<const Weights>(std::move(weights)), pool_);
  }
  Matrix base_expert(AdaptedMatrix matrix, size_t layer, int expert) const {
    const LayerWeights& of_layer = base_->layers[layer];
    return (matrix == AdaptedMatrix::kGateUp ? of_layer.gate_up : of_layer.down).matrix(expert);
  }
  // Expects expert `expert` of layer 1 in `weights` to be that of the base model plus delta(row, col).
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

inline double product(const Random& b, const Random& a, size_t row, size_t col) {
  double sum = 0;
  for (size_t k = 0; k < a.shape[0]; ++k) sum += b.at(row, k) * a.at(k, col);
  return sum;
}

}  // namespace nibble::adapter_tests
