#include "formats/ollama_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/error_of.h"

namespace nibble {
namespace {

using testing::HasSubstr;

const std::string kDigest(64, 'b');

std::string layer(const std::string& kind, const std::string& digest) {
  return R"({"mediaType": "application/vnd.ollama.image.)" + kind + R"(", "digest": ")" + digest + "\"}";
}
std::string manifest(const std::string& layers) {
  return R"({"schemaVersion": 2, "layers": [)" + layers + "]}";
}
std::string refusal(const std::string& text) {
  return error_of([&] { ollama_model_blob(text, "manifest"); });
}

TEST(OllamaManifest, TheLayerOfTheModelNamesItsBlob) {
  EXPECT_EQ(
      ollama_model_blob(manifest(layer("template", "sha256:0") + ", " + layer("model", "sha256:" + kDigest)),
                        "manifest"),
      "sha256-" + kDigest);
}

TEST(OllamaManifest, WhatIsNoModelOfOneFileIsRefused) {
  const std::string model = layer("model", "sha256:" + kDigest);
  EXPECT_THAT(refusal("[]"), HasSubstr("it has no list of layers"));
  EXPECT_THAT(refusal(R"({"layers": 3})"), HasSubstr("it has no list of layers"));
  EXPECT_THAT(refusal(manifest("3")), HasSubstr("a layer has no media type"));
  EXPECT_THAT(refusal(manifest(layer("template", "x"))), HasSubstr("it names no weights"));
  EXPECT_THAT(refusal(manifest(model + "," + model)), HasSubstr("in several files"));
  EXPECT_THAT(refusal(manifest(model + "," + layer("adapter", "x"))), HasSubstr("has an adapter"));
}

TEST(OllamaManifest, ADigestThatIsAPathIsRefused) {
  for (const std::string& digest : {std::string("sha256:../../x"), "sha256:" + kDigest + "/x",
                                    "md5:" + kDigest, "sha256:" + std::string(64, '/'), std::string()})
    EXPECT_THAT(refusal(manifest(layer("model", digest))), HasSubstr("is not a digest")) << digest;
}

}  // namespace
}  // namespace nibble
