#include "cli/terminal/answer_printer.h"

#include <gtest/gtest.h>

#include <string>

namespace nibble::cli {
namespace {

using harmony::AnswerPart;

std::string contents(std::FILE* file) {
  std::string text(static_cast<size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  return text;
}

class PrinterTest : public testing::Test {
 protected:
  ~PrinterTest() override {
    std::fclose(thoughts_);
    std::fclose(answer_);
  }
  // A file is not a terminal, so words mark the reasoning instead of dimmed text.
  std::FILE* thoughts_ = std::tmpfile();
  std::FILE* answer_ = std::tmpfile();
};

TEST_F(PrinterTest, APipeGetsTheAnswerAlone) {
  AnswerPrinter printer({.reasoning = thoughts_, .answer = answer_});
  for (const char* text : {"Add ", "them."}) printer.show(AnswerPart::kReasoning, text);
  for (const char* text : {"It is", " 42."}) printer.show(AnswerPart::kAnswer, text);
  printer.finish();
  EXPECT_EQ(contents(thoughts_), "reasoning: Add them.\n");
  EXPECT_EQ(contents(answer_), "It is 42.\n");
}

TEST_F(PrinterTest, AnAnswerThatEndsItsLineGetsNoSecondEnd) {
  AnswerPrinter printer({.reasoning = thoughts_, .answer = answer_});
  printer.show(AnswerPart::kAnswer, "one\ntwo\n");
  printer.finish();
  printer.finish();
  EXPECT_EQ(contents(answer_), "one\ntwo\n");
}

TEST_F(PrinterTest, FoldedThoughtsAreMentionedOnly) {
  AnswerPrinter printer({.reasoning = thoughts_, .answer = answer_, .hides_reasoning = true});
  printer.show(AnswerPart::kReasoning, "secret");
  printer.show(AnswerPart::kCall, "{}");
  printer.finish();
  EXPECT_EQ(contents(thoughts_), "thinking...\ncall: {}\n");
}

}  // namespace
}  // namespace nibble::cli
