#include "cli/start_line/values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text/json.h"
#include "core/text/json_text.h"

namespace nibble::cli {
namespace {

using testing::ElementsAre;

TEST(StartLineValues, ALetterAfterANumberIsAFactorAsInVllm) {
  EXPECT_EQ(plain_count("32k"), "32000");
  EXPECT_EQ(plain_count("32K"), "32768");
  EXPECT_EQ(plain_count("1.5k"), "1500");
  EXPECT_EQ(plain_count("1M"), "1048576");
  for (const char* text : {"4096", "-1", "auto", "k", "1x", "-1k", "1 k", "nank", ""})
    EXPECT_EQ(plain_count(text), text);
}

TEST(StartLineValues, APatternMatchesTheWholeValueInEitherCase) {
  EXPECT_TRUE(matches_one("auto|bfloat16", "BFloat16"));
  EXPECT_TRUE(matches_one("[4-9][0-9]", "99"));
  EXPECT_FALSE(matches_one("auto|bfloat16", "bfloat"));
  EXPECT_FALSE(matches_one("[4-9][0-9]", "999"));
}

TEST(StartLineValues, AListIsJsonOrHasCommas) {
  EXPECT_THAT(list_of(R"(["https://a.example", "*"])"), ElementsAre("https://a.example", "*"));
  EXPECT_THAT(list_of("a,b"), ElementsAre("a", "b"));
}

TEST(StartLineValues, AJsonObjectIsComparedWithoutSpaces) {
  EXPECT_EQ(compact_json(R"( { "b": 1, "a": "x" } )"), R"({"a":"x","b":1})");
  EXPECT_EQ(compact_json("[1, 2]"), "[1, 2]");
  EXPECT_EQ(compact_json("{broken"), "{broken");
}

TEST(StartLineValues, ADottedPathIsANestedObject) {
  EXPECT_EQ(json_text(json_at("pass_config.fuse", "true")), R"({"pass_config":{"fuse":true}})");
  EXPECT_EQ(json_text(json_at("method", "eagle3")), R"({"method":"eagle3"})");
}

}  // namespace
}  // namespace nibble::cli
