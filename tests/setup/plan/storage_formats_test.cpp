#include "setup/plan/storage_formats.h"

#include <gtest/gtest.h>

#include "setup/model/model.h"
#include "setup/start/resolve.h"
#include "tests/folders.h"

namespace nibble {
namespace {

TEST(StorageFormats, DenseLayersAreInTheFormatThatAFlagNamesThemFor) {
  Settings settings;
  settings.fp8_layers = "qkv,lm_head";
  settings.mxfp4_layers = "moe,o";
  settings.kv_dtype = "fp8";
  const StorageFormats formats =
      formats_of(open_model(test::source_path("models/tiny-gpt-oss"), {}), resolve(settings));
  EXPECT_EQ(formats.qkv, Format::kE4m3);
  EXPECT_EQ(formats.attention_output, Format::kMxfp4);
  EXPECT_EQ(formats.unembedding, Format::kE4m3);
  EXPECT_EQ(formats.router, Format::kBf16);
  EXPECT_EQ(formats.kv, Format::kE4m3);
}

}  // namespace
}  // namespace nibble
