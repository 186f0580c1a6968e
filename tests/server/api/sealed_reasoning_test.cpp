#include "server/api/sealed_reasoning.h"

#include <gtest/gtest.h>

#include "text/base64.h"

namespace nibble::server {
namespace {

TEST(SealedReasoning, TheTextComesBackUnchanged) {
  for (const char* text : {"", "a", "ab", "abc", "Two lines\nand <|end|>", "\u00e9\u4e2d\U0001f600"})
    EXPECT_EQ(open_reasoning(seal_reasoning(text)), text);
}

TEST(SealedReasoning, OtherServersValuesAreNotRead) {
  const std::string sealed = seal_reasoning("Hm.");
  for (const std::string& other :
       {std::string(), std::string("gAAAAABo"), std::string("x"), encode_base64("Hm."), sealed.substr(4),
        sealed.substr(0, sealed.size() - 1), encode_base64("nibble reasoning 1\n\xff")})
    EXPECT_EQ(open_reasoning(other), std::nullopt) << other;
}

}  // namespace
}  // namespace nibble::server
