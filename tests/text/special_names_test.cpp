#include "text/special_names.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

class SpecialNamesTest : public testing::Test {
 protected:
  SpecialNamesTest() {
    EXPECT_TRUE(vocabulary_.add(0, "text"));
    for (const char* name : {"<|a|>", "<|a|>b", "<|ab|>", "b<", "\xFF"})
      EXPECT_TRUE(vocabulary_.add_special(vocabulary_.num_ids(), name));
  }
  std::string found(std::string_view text) const {
    const auto match = SpecialNames(vocabulary_).find(text);
    if (!match) return "nothing";
    EXPECT_EQ(text.substr(match->begin, match->num_bytes), vocabulary_.bytes(match->id));
    return std::to_string(match->begin) + " " + std::to_string(match->id);
  }
  Vocabulary vocabulary_{1};
};

TEST_F(SpecialNamesTest, TheLeftmostIsFound) {
  EXPECT_EQ(found("x<|ab|><|a|>"), "1 3");
  EXPECT_EQ(found("b<|a|>"), "0 4");
  EXPECT_EQ(found("\xFF"), "0 5");
}

TEST_F(SpecialNamesTest, TheLongestOfThoseThatBeginThereIsFound) {
  EXPECT_EQ(found("<|a|>bc"), "0 2");
  EXPECT_EQ(found("<|a|>c"), "0 1");
  EXPECT_EQ(found("<|a|>"), "0 1");
}

TEST_F(SpecialNamesTest, HalfANameAndOrdinaryTokensAreNotFound) {
  EXPECT_EQ(found("text <|a| <|ab| <|"), "nothing");
  EXPECT_EQ(found(""), "nothing");
}

TEST_F(SpecialNamesTest, ANameHasItsIdAndNothingElseHas) {
  const SpecialNames names(vocabulary_);
  EXPECT_EQ(names.id("<|a|>"), 1);
  EXPECT_EQ(names.id("<|a|>b"), 2);
  EXPECT_EQ(names.id("<|a|>bc"), std::nullopt);
  EXPECT_EQ(names.id("<|a"), std::nullopt);
  EXPECT_EQ(names.id("text"), std::nullopt);
  EXPECT_EQ(names.id(""), std::nullopt);
}

}  // namespace
}  // namespace nibble
