#include "setup/model/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "setup/model/model_source.h"
#include "tests/error_of.h"
#include "tests/folders.h"

namespace nibble {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(OpenTokenizer, SyntheticWeightsGetTheBytesAsVocabulary) {
  const Places places;
  const Tokenizer tokenizer = open_tokenizer(find_model("synthetic:gpt-oss-20b", places), places);
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  const std::vector<TokenId> ids = tokenizer.encode(all, SpecialTokens::kOrdinary);
  EXPECT_EQ(ids.size(), 256u);
  EXPECT_EQ(tokenizer.decode(ids), all);
  EXPECT_TRUE(tokenizer.special("<|start|>"));
}

TEST(OpenTokenizer, TheVocabularyIsNextToTheWeightsOrWhereTheSettingSays) {
  const ModelSource source = find_model(test::source_path("models/tiny-gpt-oss"), {});
  EXPECT_EQ(open_tokenizer(source, {}).special("<|start|>"), 4072);
  Settings settings;
  settings.tokenizer = "bytes";
  EXPECT_NE(open_tokenizer(source, resolve_places(settings)).special("<|start|>"), 4072);
  const ModelSource without{"a", test::source_path("tests/golden/random/a"), {}};
  EXPECT_THAT(error_of([&] { open_tokenizer(without, {}); }),
              AllOf(HasSubstr("no tokenizer.json"), HasSubstr("--tokenizer")));
  settings.tokenizer = test::source_path("models/tiny-gpt-oss/tokenizer.json");
  EXPECT_EQ(open_tokenizer(without, resolve_places(settings)).special("<|start|>"), 4072);
}

}  // namespace
}  // namespace nibble
