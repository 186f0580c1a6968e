// Prints a streaming answer: the answer plain, reasoning and tool calls dimmed, to a separate stream.
#pragma once

#include <cstdio>
#include <string_view>

#include "cli/terminal/answer.h"

namespace nibble::cli {

struct AnswerPrinterOptions {
  std::FILE* reasoning{stderr};  // for reasoning and calls, so that a pipe on stdout gets only the answer
  std::FILE* answer{stdout};
  bool hides_reasoning{false};  // show one line, "thinking...", instead of the reasoning
};

class AnswerPrinter {
 public:
  explicit AnswerPrinter(const AnswerPrinterOptions& options) : options_(options) {}

  void show(harmony::AnswerPart part, std::string_view text);
  void finish();  // ends the line and switches dimming off

 private:
  void open(harmony::AnswerPart part);
  void close();

  AnswerPrinterOptions options_;
  bool is_open_{false};
  harmony::AnswerPart part_{};
  bool at_line_start_{true};
};

}  // namespace nibble::cli
