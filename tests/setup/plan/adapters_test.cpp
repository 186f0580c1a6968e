// The flag --lora: its values, and the models that get the adapters.
#include "setup/plan/adapters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>

#include "model/convert_experts.h"
#include "setup/plan/capacity.h"
#include "setup/plan/experts.h"
#include "setup/plan/memory.h"
#include "setup/start/load.h"
#include "setup/start/resolve.h"
#include "tests/backend/feeder.h"
#include "tests/error_of.h"
#include "tests/folders.h"
#include "tests/model/expanded_experts.h"
#include "tests/model/small_model.h"

namespace nibble {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kAdaptedModel{test::source_path("models/tiny-gpt-oss")};

AdapterSetup read(const std::string& text) {
  const std::string texts[] = {text};
  return read_adapters(texts).at(0);
}

TEST(Lora, IsAFileAndMayHaveAScale) {
  EXPECT_EQ(read("a/b").file, "a/b");
  EXPECT_EQ(read("a/b").scale, 1);
  EXPECT_EQ(read("a/b:0.5").file, "a/b");
  EXPECT_EQ(read("a/b:0.5").scale, 0.5F);
  EXPECT_EQ(read("a:-2").scale, -2);
  EXPECT_EQ(read("a:b").file, "a:b");
  EXPECT_EQ(read("a:").file, "a:");
  EXPECT_EQ(read(":1").file, ":1");
  for (const char* text : {"a:nan", "a:inf", "a:1001", "a:-1e9"})
    EXPECT_THAT(
        error_of([&] { read(text); }),
        HasSubstr(fmt::format("--lora '{}': expected FILE:SCALE with a number from -1000 to 1000", text)));
}

class LoraFiles : public testing::Test {
 protected:
  // Makes an adapter for q of the first layer and for the experts of the last layer. write() stores it in a
  // folder; remove_experts() leaves only q.
  LoraFiles() {
    add("model.layers.0.self_attn.q_proj", 4, 256, 512);
    add("model.layers.5.mlp.experts", 4 * 16, 128, 256);
  }
  void add(const std::string& module, uint64_t rank, uint64_t in, uint64_t out) {
    const auto tensor = [](uint64_t rows, uint64_t cols) {
      OwnedTensor made{DType::kBf16, {rows, cols}, std::vector<std::byte>(2 * rows * cols)};
      for (size_t i = 0; i < made.bytes.size(); i += 2) {
        made.bytes[i] = static_cast<std::byte>(i / 2 * 7);
        made.bytes[i + 1] = i % 3 == 0 ? std::byte{0xBD} : std::byte{0x3D};  // about -0.06 or 0.06
      }
      return made;
    };
    tensors_["base_model.model." + module + ".lora_A.weight"] = tensor(rank, in);
    tensors_["base_model.model." + module + ".lora_B.weight"] = tensor(out, rank);
  }
  std::string write() const {
    const std::filesystem::path folder = folder_.path() / "adapter:1";  // a name with a colon
    std::filesystem::create_directories(folder);
    write_checkpoint(folder / "adapter_model.safetensors", tensors_, "{}");
    write_text(folder / "adapter_config.json", R"({"peft_type": "LORA", "r": 4, "lora_alpha": 4})");
    return folder.string();
  }
  void remove_experts() {
    tensors_.erase("base_model.model.model.layers.5.mlp.experts.lora_A.weight");
    tensors_.erase("base_model.model.model.layers.5.mlp.experts.lora_B.weight");
  }
  static ResolvedSettings setup_of(const std::string& backend, const std::vector<std::string>& adapters,
                                   const std::string& experts = {}) {
    Settings settings;
    settings.backend = backend;
    settings.threads = 2;
    settings.lora = adapters;
    if (!experts.empty()) settings.experts = experts;
    return resolve(settings);
  }
  static std::vector<float> logits(const ResolvedSettings& setup) {
    const Model model = open_model_for(kAdaptedModel, setup);
    const BackendOptions options = backend_options(model.config, setup, {64, 1});
    Feeder feeder(load(model, setup, options), options.num_pages);
    feeder.feed({{0, random_ids(20, model.config.vocab, 7)}});
    return feeder.logits(0);
  }

  const TestFolder folder_;
  OwnedTensors tensors_;
};

TEST_F(LoraFiles, GiveTheSameLogitsOnTheCpuAsOnTheReference) {
  const std::string adapter = write();
  const std::vector<float> plain = logits(setup_of("reference", {})),
                           expected = logits(setup_of("reference", {adapter}, "bf16"));
  const auto distance = [](const std::vector<float>& a, const std::vector<float>& b) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      difference += (a[i] - b[i]) * (a[i] - b[i]);
      size += b[i] * b[i];
    }
    return std::sqrt(difference / size);
  };
  EXPECT_GT(distance(plain, expected), 0.05);
  EXPECT_LT(distance(logits(setup_of("cpu", {adapter}, "bf16")), expected), 0.01);
  EXPECT_LT(distance(logits(setup_of("reference", {adapter})), expected), 2e-3) << "experts in F32";
  EXPECT_EQ(logits(setup_of("cpu", {adapter + ":0"})), logits(setup_of("cpu", {}))) << "not a bit changes";
  EXPECT_LT(distance(logits(setup_of("reference", {adapter + ":0.5", adapter + ":-0.5"})), plain), 1e-5);
}

TEST_F(LoraFiles, NameTheAdapterAndCountItsMemory) {
  const std::string adapter = write();
  const Model model = open_model_for(kAdaptedModel, setup_of("cpu", {adapter + ":0.5"}, "bf16"));
  EXPECT_THAT(model.adapters, testing::ElementsAre(adapter + ": rank 4, scale 0.5: q 1, experts' down 16"));
  EXPECT_GE(model.merged_bytes, 2u * 512 * 256);
  EXPECT_LT(model.merged_bytes, 2u * 512 * 256 + 4096);
  EXPECT_THAT(describe_model_for(kAdaptedModel, setup_of("cpu", {})).adapters, testing::IsEmpty());
}

TEST_F(LoraFiles, AreNotMergedIntoDenseMatricesOfAModelThatIsOnlyDescribed) {
  const ResolvedSettings setup = setup_of("cpu", {write()}, "bf16");
  const Model merged = open_model_for(kAdaptedModel, setup),
              described = describe_model_for(kAdaptedModel, setup);
  EXPECT_EQ(described.adapters, merged.adapters);
  EXPECT_EQ(described.merged_bytes, 0u);
  const Matrix &is = described.weights->layers[0].q, &was = merged.weights->layers[0].q;
  EXPECT_EQ(is.elements().format, was.elements().format);
  EXPECT_NE(values_of(was, 1), values_of(is, 1));
  EXPECT_THAT(values_of(is, 1), testing::Each(0));
  EXPECT_EQ(describe_experts(*described.weights), describe_experts(*merged.weights));
  const BackendOptions options = backend_options(merged.config, setup, {64, 1});
  EXPECT_EQ(needed_bytes(described, setup, options),
            needed_bytes(merged, setup, options) + merged.merged_bytes)
      << "memory that is not in use yet";
}

TEST_F(LoraFiles, MustNotChangeBeforeTheModelIsLoaded) {
  const std::string adapter = write();
  const ResolvedSettings setup = setup_of("cpu", {adapter}, "bf16");
  const Model model = open_model_for(kAdaptedModel, setup);
  const BackendOptions options = backend_options(model.config, setup, {64, 1});
  EXPECT_NO_THROW(load(model, setup, options));
  const std::filesystem::path tensors = std::filesystem::path(adapter) / "adapter_model.safetensors";
  std::filesystem::last_write_time(tensors,
                                   std::filesystem::last_write_time(tensors) + std::chrono::hours(1));
  try {
    load(model, setup, options);
    ADD_FAILURE() << "the change was not noticed";
  } catch (const BackendLost& lost) {
    EXPECT_THAT(lost.what(), HasSubstr(tensors.string() + " was changed after it was opened"));
  }
}

TEST_F(LoraFiles, OfExpertsAreRefusedWithoutAFormatThatKeepsThem) {
  const std::string adapter = write();
  EXPECT_THAT(error_of([&] { open_model_for(kAdaptedModel, setup_of("cpu", {adapter})); }),
              AllOf(HasSubstr("an adapter changes the experts, which are MXFP4, so the cpu backend"),
                    HasSubstr("--experts mxfp4 ("), HasSubstr("bf16 ("), Not(HasSubstr("\n"))));
  remove_experts();
  EXPECT_EQ(error_of([&] { open_model_for(kAdaptedModel, setup_of("cpu", {write()})); }), "accepted");
}

TEST_F(LoraFiles, AreComparedWithAnUnquantisedModelThatHasTheAdapterToo) {
  const std::string adapter = write();
  const ResolvedSettings plain = unquantised(setup_of("cpu", {adapter}, "mxfp4"));
  EXPECT_EQ(plain.experts, Format::kBf16);
  EXPECT_EQ(plain.adapters.size(), 1u);
  EXPECT_EQ(unquantised(setup_of("cpu", {}, "fp8")).experts, std::nullopt);
}

TEST(Lora, BelongsToFilesThatExistAndToModelsWithWeights) {
  Settings settings;
  settings.backend = "cpu";
  settings.lora = {"/no/such/adapter:0.5"};
  EXPECT_THAT(error_of([&] { open_model_for(kAdaptedModel, resolve(settings)); }),
              AllOf(HasSubstr("--lora '/no/such/adapter': no such adapter: looked for /no/such/adapter"),
                    HasSubstr("adapter_config.json"), Not(HasSubstr("\n"))));
  EXPECT_THAT(error_of([&] { open_model_for("synthetic:gpt-oss-20b", resolve(settings)); }),
              HasSubstr("synthetic:gpt-oss-20b has random weights, to which no adapter belongs"));
}

}  // namespace
}  // namespace nibble
