#include "cli/help.h"

#include <gtest/gtest.h>

namespace nibble::cli {
namespace {

TEST(Wrap, BreaksAtSpacesOnly) {
  EXPECT_EQ(wrap("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrap("one two three", 13), "one two three");
  EXPECT_EQ(wrap("unbreakable words", 4), "unbreakable\nwords");
  EXPECT_EQ(wrap("", 10), "");
}

TEST(Wrap, ALineBreakOfTheTextIsASpace) { EXPECT_EQ(wrap("one\ntwo\n three", 100), "one two three"); }

TEST(WrapParagraphs, EachIsWrappedAndExamplesAreLeftAlone) {
  EXPECT_EQ(
      wrap_paragraphs("\nA first line\nand a second.\n\nAnother one.\n\nExamples:\n  nibble run    tiny", 20),
      "\nA first line and a\nsecond.\n\nAnother one.\n\nExamples:\n  nibble run    tiny\n");
}

TEST(HelpFormatter, WrapsTheTextNextToAFlag) {
  CLI::App app;
  app.formatter(std::make_shared<HelpFormatter>(60));
  int value = 0;
  app.add_option("--value", value, "a description that is longer than what a line of sixty columns has left");
  const std::string help = app.help();
  size_t begin = 0;
  for (size_t end; (end = help.find('\n', begin)) != std::string::npos; begin = end + 1)
    EXPECT_LE(end - begin, 60u) << help;
  EXPECT_NE(help.find("\n" + std::string(38, ' ') + "longer"), std::string::npos) << help;
}

}  // namespace
}  // namespace nibble::cli
