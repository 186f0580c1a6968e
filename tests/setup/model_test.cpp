#include "setup/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/folders.h"

namespace nibble {
namespace {

const std::string kTiny{test::source_path("models/tiny-gpt-oss")};

TEST(OpenedModel, ACheckpointIsOpenedWithItsConfiguration) {
  const Model model = open_model(kTiny, {});
  ASSERT_TRUE(model.weights);
  EXPECT_EQ(model.config.num_layers, 6);
  EXPECT_EQ(weight_bytes(model.config), 13306656u);  // total_size of its index
}

TEST(OpenedModel, DenseLayersAreInTheFormatThatAFlagNamesThemFor) {
  Settings settings;
  settings.fp8_layers = "qkv,lm_head";
  settings.mxfp4_layers = "moe,o";
  settings.kv_dtype = "fp8";
  const StorageFormats formats = formats_of(open_model(kTiny, {}), resolve(settings));
  EXPECT_EQ(formats.qkv, Format::kE4m3);
  EXPECT_EQ(formats.attention_output, Format::kMxfp4);
  EXPECT_EQ(formats.unembedding, Format::kE4m3);
  EXPECT_EQ(formats.router, Format::kBf16);
  EXPECT_EQ(formats.kv, Format::kE4m3);
}

}  // namespace
}  // namespace nibble
