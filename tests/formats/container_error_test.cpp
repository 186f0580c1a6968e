#include "formats/container_error.h"

#include <gtest/gtest.h>

#include <string>

namespace nibble {
namespace {

TEST(ContainerError, ALineSaysWhereWhatAndWhatToDo) {
  const ContainerError error(ContainerFault::kGap, "dir/x.safetensors", "{} begins at {}", in_quotes("a"), 4);
  EXPECT_EQ(std::string(error.what()),
            "dir/x.safetensors: gap between tensors: \"a\" begins at 4. The file is damaged or was written "
            "incorrectly: "
            "download it again, or convert it with another program");
}

TEST(InQuotes, PrintableAsciiStaysAsItIs) {
  EXPECT_EQ(in_quotes("model.layers.0.mlp.router.weight"), "\"model.layers.0.mlp.router.weight\"");
  EXPECT_EQ(in_quotes(""), "\"\"");
}

TEST(InQuotes, EveryOtherByteIsEscaped) {
  EXPECT_EQ(in_quotes("\"\\"), R"("\"\\")");
  EXPECT_EQ(in_quotes(std::string_view("\n\0\x1b\x7f", 4)), R"("\x0a\x00\x1b\x7f")");
  EXPECT_EQ(in_quotes("\xC3\xA9\xFF"), R"("\xc3\xa9\xff")");
}

TEST(InQuotes, ALongNameIsCutWhereverItsCharactersEnd) {
  for (size_t num_letters = 96; num_letters <= 104; ++num_letters) {
    const std::string shown = in_quotes(std::string(num_letters, 'a') + "\xF0\x9F\x98\x80");
    EXPECT_EQ(shown.ends_with("\"..."), num_letters > 96) << shown;
    EXPECT_TRUE(shown.starts_with("\"" + std::string(96, 'a'))) << shown;
  }
}

}  // namespace
}  // namespace nibble
