// The bundled model with its experts expanded to BF16: what backends compute with it, and in which formats.
#include "setup/plan/experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/convert_experts.h"
#include "setup/model/model.h"
#include "setup/plan/capacity.h"
#include "setup/plan/memory.h"
#include "setup/plan/storage_formats.h"
#include "setup/start/load.h"
#include "setup/start/resolve.h"
#include "tests/backend/feeder.h"
#include "tests/error_of.h"
#include "tests/folders.h"
#include "tests/model/expanded_experts.h"

namespace nibble {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kBundled{test::source_path("models/tiny-gpt-oss")};

class ExpandedTiny : public testing::Test {
 protected:
  // Writes the model with experts [E, in, out]; `is_changed`: one number of layer 3 is not exact in MXFP4.
  std::string write(bool is_changed) const {
    OwnedTensors tensors = read_tensors(kBundled);
    const Weights weights = open_weights(kBundled);
    expand_experts(tensors, weights, {DType::kBf16, true});
    if (is_changed) {
      std::vector<std::byte>& bytes = tensors.at("model.layers.3.mlp.experts.gate_up_proj").bytes;
      bytes[0] = std::byte{0x23};
      bytes[1] = std::byte{0x3E};  // 0x3E23 is 0.159 in BF16
    }
    const std::filesystem::path file = folder_.path() / "model.safetensors";
    write_checkpoint(file, tensors, to_json(weights.config));
    return file.string();
  }
  static ResolvedSettings setup_of(const std::string& backend, const std::string& experts = {},
                                   const std::string& activations = {}) {
    Settings settings;
    settings.backend = backend;
    settings.threads = 2;
    if (!experts.empty()) settings.experts = experts;
    if (!activations.empty()) settings.experts_activations = activations;
    return resolve(settings);
  }
  static std::vector<float> logits(const std::string& file, const ResolvedSettings& setup) {
    const Model model = open_model_for(file, setup);
    const BackendOptions options = backend_options(model.config, setup, {64, 1});
    Feeder feeder(load(model, setup, options), options.num_pages);
    feeder.feed({{0, random_ids(20, model.config.vocab, 7)}});
    return feeder.logits(0);
  }
  static double relative_error(const std::vector<float>& values, const std::vector<float>& expected) {
    double error = 0, norm = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      error += std::pow(double{values[i]} - expected[i], 2);
      norm += std::pow(double{expected[i]}, 2);
    }
    return std::sqrt(error / norm);
  }

  const TestFolder folder_;
};

TEST_F(ExpandedTiny, HasTheLogitsOfTheReleasedModelBitForBit) {
  const std::string file = write(false);
  for (const auto& setup : {setup_of("reference"), setup_of("cpu"), setup_of("cpu", "", "float")})
    EXPECT_EQ(logits(file, setup), logits(kBundled, setup)) << setup.backend->name;
}

TEST_F(ExpandedTiny, KeepsTheMatricesInBf16ThatAreNotExact) {
  const std::string file = write(true);
  const std::vector<float> expected = logits(file, setup_of("reference"));
  EXPECT_NE(expected, logits(kBundled, setup_of("reference")));
  const Model model = open_model_for(file, setup_of("cpu"));
  EXPECT_EQ(describe_experts(*model.weights), "BF16 in the file, exactly MXFP4; BF16 in the file");
  EXPECT_EQ(model.weights->layers[3].gate_up.first.format(), Format::kBf16);
  EXPECT_EQ(model.weights->layers[3].down.first.format(), Format::kMxfp4);
  EXPECT_EQ(experts_format(model, setup_of("cpu")), Format::kBf16);
  EXPECT_LT(relative_error(logits(file, setup_of("cpu", "", "float")), expected), 1e-2);
  EXPECT_LT(relative_error(logits(file, setup_of("cpu", "bf16", "float")), expected), 1e-2);
  EXPECT_LT(relative_error(logits(file, setup_of("cpu")), expected), 5e-2);  // int8 in the other layers
}

TEST_F(ExpandedTiny, IsPlannedWithTheBytesOfTheExpertsThatRun) {
  const std::string file = write(true);
  const ResolvedSettings native = setup_of("cpu", "", "float"), asked = setup_of("cpu", "mxfp4", "float");
  const auto needed = [&](const ResolvedSettings& setup) {
    const Model model = open_model_for(file, setup);
    return needed_bytes(model, setup, backend_options(model.config, setup, {64, 1}));
  };
  const Config config = open_weights(kBundled).config;
  EXPECT_EQ(needed(native) - needed(asked),
            expert_bytes(config, Format::kBf16) - expert_bytes(config, Format::kMxfp4));
  const Model model = open_model_for(file, native);
  EXPECT_THAT(smaller_experts(model, native), HasSubstr("; --experts mxfp4 makes the experts 5"));
  EXPECT_EQ(smaller_experts(open_model_for(file, asked), asked), "");
}

// BF16 and MXFP4 are exact; Q8_0 and FP8 lose bits in every layer.
TEST_F(ExpandedTiny, InEveryFormatIsNearTheReleasedModel) {
  const std::vector<float> exact = logits(kBundled, setup_of("reference"));
  EXPECT_EQ(logits(kBundled, setup_of("reference", "bf16")), exact);
  EXPECT_EQ(logits(write(false), setup_of("reference", "mxfp4")), exact);
  const double q8_0 = relative_error(logits(kBundled, setup_of("reference", "q8_0")), exact),
               fp8 = relative_error(logits(kBundled, setup_of("reference", "fp8")), exact);
  EXPECT_GT(q8_0, 0);
  EXPECT_LT(q8_0, 0.05);
  EXPECT_GT(fp8, 0);
  EXPECT_LT(fp8, 0.2);
  for (const char* format : {"bf16", "fp8"})
    EXPECT_LT(relative_error(logits(kBundled, setup_of("cpu", format, "float")),
                             logits(kBundled, setup_of("reference", format))),
              1e-2)
        << format;
  EXPECT_LT(relative_error(logits(kBundled, setup_of("cpu", "q8_0")), exact), 0.1);
}

TEST_F(ExpandedTiny, RefusesFormatsThatABackendLacks) {
  EXPECT_THAT(
      error_of([&] { open_model_for(kBundled, setup_of("cpu", "q8_0", "float")); }),
      AllOf(HasSubstr("--experts: the cpu backend does not run experts in Q8_0"), HasSubstr("bf16 (")));
  EXPECT_THAT(error_of([&] { open_model_for("synthetic:gpt-oss-20b", setup_of("cpu", "q8_0", "float")); }),
              HasSubstr("does not run experts in Q8_0"));
  Settings settings;
  settings.experts = "bf16";
  settings.mxfp4_layers = "all";
  EXPECT_THAT(error_of([&] { resolve(settings); }), HasSubstr("both name the experts: choose one format"));
}

}  // namespace
}  // namespace nibble
