#include "model/check_vectors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/checkpoint/synthetic.h"
#include "model/checkpoint/write_checkpoint.h"
#include "tests/error_of.h"
#include "tests/folders.h"
#include "tests/model/small_model.h"

namespace nibble {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A checkpoint of the small model, in which a test replaces one value.
class CheckVectors : public testing::Test {
 protected:
  CheckVectors() {
    write_checkpoint(synthetic_source(config_, "synthetic"), folder_.path() / "hf");
    tensors_ = read_tensors(folder_.path() / "hf");
  }
  void replace(const std::string& tensor, size_t index, float value) {
    const Bf16 stored = to_bf16(value);
    std::memcpy(&tensors_.at(tensor).bytes.at(2 * index), &stored, sizeof(stored));
  }
  std::string error_with(const std::string& tensor, size_t index, float value) {
    replace(tensor, index, value);
    return error_of([&] { check_vectors(open()); });
  }
  Weights open() const {
    const std::filesystem::path file = folder_.path() / "model.safetensors";
    write_checkpoint(file, tensors_, to_json(config_));
    return open_weights(file);
  }

  const Config config_{small_config()};
  const TestFolder folder_;
  OwnedTensors tensors_;
};

TEST_F(CheckVectors, AcceptsTheBundledModelAndItsLargestSinks) {
  check_vectors(open_weights(test::source_path("models/tiny-gpt-oss")));
  replace("model.layers.1.self_attn.sinks", 5, -100.0F);
  check_vectors(open());
}

TEST_F(CheckVectors, NamesTheSinkThatIsNotANumber) {
  EXPECT_THAT(error_with("model.layers.1.self_attn.sinks", 5, std::numeric_limits<float>::quiet_NaN()),
              AllOf(HasSubstr("model.safetensors: value 5 of tensor 'model.layers.1.self_attn.sinks' is nan"),
                    HasSubstr("expected a number from -100 to 100")));
}

TEST_F(CheckVectors, RefusesASinkOutOfRange) {
  EXPECT_THAT(error_with("model.layers.2.self_attn.sinks", 0, 128.0F),
              HasSubstr("value 0 of tensor 'model.layers.2.self_attn.sinks' is 128"));
}

TEST_F(CheckVectors, ReadsTheBiasesOfTheLastExpert) {
  const auto last = static_cast<size_t>(config_.num_experts * config_.hidden - 1);
  EXPECT_THAT(error_with("model.layers.2.mlp.experts.down_proj_bias", last, -INFINITY),
              HasSubstr("value 319 of tensor 'model.layers.2.mlp.experts.down_proj_bias' is -inf"));
}

TEST_F(CheckVectors, ReadsEveryVectorOfTheModel) {
  int num_vectors{0};
  for (const TensorSpec& spec : tensor_specs(config_)) {
    if (spec.kind != TensorKind::kSinks && spec.kind != TensorKind::kNorm && spec.kind != TensorKind::kBias)
      continue;
    const OwnedTensors whole = tensors_;
    EXPECT_THAT(error_with(spec.name, 0, INFINITY), HasSubstr("'" + spec.name + "' is inf"));
    tensors_ = whole;
    ++num_vectors;
  }
  EXPECT_EQ(num_vectors, 3 * 10 + 1);
}

}  // namespace
}  // namespace nibble
