#include "setup/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "core/mapped_file.h"
#include "model/write_gguf.h"
#include "tests/error_of.h"
#include "tests/folders.h"

namespace nibble::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kTiny{test::source_path("models/tiny-gpt-oss")};

TEST(Load, TheContextIsWhatWasAskedForWithinWhatTheModelWasMadeFor) {
  const Config config = *named_config("gpt-oss-20b");  // 131,072
  EXPECT_EQ(context_of(config, {}), kDefaultContext);
  Settings settings;
  settings.context = 131072;
  EXPECT_EQ(context_of(config, settings), 131072);
  settings.context = 131073;
  EXPECT_THAT(error_of([&] { context_of(config, settings); }), HasSubstr("at most 131072"));

  Config small = config;
  small.max_context = 100;
  EXPECT_EQ(context_of(small, {}), 100);
}

TEST(Load, PagesCoverTheContextOfEverySequence) {
  const Config config = *named_config("gpt-oss-20b");
  const BackendOptions options = backend_options(config, {}, {1025, 3});
  EXPECT_EQ(options.num_full_pages, 3 * 33);  // 1,025 positions are 33 pages of 32
  // A window of 128 and chunks of 512 reach over at most 128 + 512 positions: 20 pages, and one for where they begin.
  EXPECT_GE(options.num_sliding_pages, 3 * 20);
  EXPECT_LE(options.num_sliding_pages, 3 * 21);
  // No more than all of a short context.
  EXPECT_EQ(backend_options(config, {}, {64, 1}).num_sliding_pages, 2);
}

TEST(Load, WhatDoesNotFitIsRefusedWithTheFiguresBeforeItIsMade) {
  const Model model = open_model("synthetic:gpt-oss-120b", {});
  Settings settings;
  settings.context = 131072;
  // 1,024 full contexts are 5 TB of keys and values: more than any machine this runs on has.
  const BackendOptions options = backend_options(model.config, settings, {131072, 1024});
  EXPECT_THAT(
      error_of([&] { load(model, settings, options); }),
      AllOf(HasSubstr("synthetic:gpt-oss-120b needs"), HasSubstr("KV cache"), HasSubstr("available")));
}

TEST(Load, SyntheticWeightsGetTheBytesAsVocabulary) {
  const Tokenizer tokenizer = open_tokenizer(open_model("synthetic:gpt-oss-20b", {}).source, {});
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  const std::vector<TokenId> ids = tokenizer.encode(all, SpecialTokens::kOrdinary);
  EXPECT_EQ(ids.size(), 256u);
  EXPECT_EQ(tokenizer.decode(ids), all);
  EXPECT_TRUE(tokenizer.special("<|start|>"));
}

TEST(Load, TheVocabularyLiesBesideTheWeightsOrWhereTheSettingSays) {
  const Model model = open_model(kTiny, {});
  EXPECT_EQ(open_tokenizer(model.source, {}).special("<|start|>"), 4072);
  Settings settings;
  settings.tokenizer = "bytes";
  EXPECT_NE(open_tokenizer(model.source, settings).special("<|start|>"), 4072);
  const ModelSource without{"a", test::source_path("tests/golden/random/a"), {}};
  EXPECT_THAT(error_of([&] { open_tokenizer(without, {}); }),
              AllOf(HasSubstr("no tokenizer.json"), HasSubstr("--tokenizer")));
}

TEST(Load, DenseLayersAreInTheFormatThatAFlagNamesThemFor) {
  Settings settings;
  settings.fp8_layers = "qkv,lm_head";
  settings.mxfp4_layers = "moe,o";
  settings.kv_dtype = "fp8";
  const StorageFormats formats = formats_of(open_model(kTiny, {}), settings);
  EXPECT_EQ(formats.qkv, Format::kE4m3);
  EXPECT_EQ(formats.attention_output, Format::kMxfp4);
  EXPECT_EQ(formats.unembedding, Format::kE4m3);
  EXPECT_EQ(formats.router, Format::kBf16);
  EXPECT_EQ(formats.kv, Format::kE4m3);
}

TEST(Load, ALayerThatTwoFlagsNameIsRefused) {
  const Config config = *named_config("gpt-oss-20b");
  Settings settings;
  settings.fp8_layers = "all";
  settings.mxfp4_layers = "lm_head";
  EXPECT_THAT(error_of([&] { backend_options(config, settings, {64, 1}); }), HasSubstr("both name lm_head"));
  settings.mxfp4_layers = "moe";  // experts, which FP8 leaves alone
  EXPECT_THAT(error_of([&] {
                backend_options(config, settings, {64, 1});
              }),
              testing::Not(HasSubstr("both name")));
}

TEST(Load, WhatIsConvertedNeedNotStayInMemoryWhereItIsMapped) {
  const MemoryPlan plan{.weight_bytes = 500, .replaced_weight_bytes = 1000};
  const Model tiny = open_model(kTiny, {}), made = open_model("synthetic:gpt-oss-20b", {});
  EXPECT_EQ(kept_weight_bytes(tiny, plan, {}), weight_bytes(tiny.config) - 1000);
  EXPECT_EQ(kept_weight_bytes(made, plan, {}), weight_bytes(made.config));
}

// What was made of a GGUF file is held as made weights are, also where a backend converts it once more; what is taken as it lies
// there is not made.
TEST(Load, AGgufFilesWeightsTakeTheMemoryOfWhatIsMadeOfThem) {
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / fmt::format("nibble_load_{}.gguf", ::getpid());
  ThreadPool pool(2);
  write_gguf(open_source(kTiny), file,
             {.dense = GgmlType::kQ8_0,
              .tokenizer_json = read_text_file(kTiny + "/tokenizer.json"),
              .chat_template = {}},
             pool);
  const Model model = open_model(file.string(), {});
  MemoryPlan plan;
  plan.replaced_weight_bytes = plan.released_weight_bytes = 1000;
  Settings settings;
  settings.backend = "cpu";
  settings.experts_activations = "float";
  EXPECT_EQ(kept_weight_bytes(model, plan, settings), weight_bytes(model.config));
  EXPECT_EQ(formats_of(model, settings).qkv, Format::kBf16);
  settings.experts_activations = "int8";
  // Of 6 layers q [512, 256], k and v [128, 256], o [256, 512]; embedding and lm_head [4096, 256]; 34 bytes in place of 64.
  const size_t num_blocks = (6 * (768 * 256 + 256 * 512) + 2 * 4096 * 256) / 32;
  EXPECT_EQ(kept_weight_bytes(model, plan, settings), weight_bytes(model.config) - 30 * num_blocks - 1000);
  EXPECT_EQ(formats_of(model, settings).qkv, Format::kQ8_0);
  EXPECT_EQ(formats_of(model, settings).unembedding, Format::kQ8_0);
  EXPECT_EQ(open_tokenizer(model.source, {}).num_tokens(), 4085);
  EXPECT_EQ(model.config, open_model(kTiny, {}).config);
  std::filesystem::remove(file);
}

TEST(Load, ACheckpointIsOpenedWithItsConfiguration) {
  const Model model = open_model(kTiny, {});
  ASSERT_TRUE(model.weights);
  EXPECT_EQ(model.config.num_layers, 6);
  EXPECT_EQ(weight_bytes(model.config), 13306656u);  // total_size of its index
}

}  // namespace
}  // namespace nibble::cli
