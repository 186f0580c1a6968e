// Prints an answer as it arrives: text for the user to one stream, dimmed reasoning and calls to another.
#pragma once

#include <cstdio>
#include <string_view>

#include "cli/terminal/answer.h"

namespace nibble::cli {

struct AnswerPrinterOptions {
  std::FILE* reasoning{stderr};  // stream for reasoning and calls; a pipe on stdout then gets only the answer
  std::FILE* answer{stdout};
  bool hides_reasoning{false};  // shows the line "thinking..." instead of the reasoning
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
