// Prints an answer as it streams: reasoning and calls dimmed and to a stream of their own, the answer plain.
#pragma once

#include <cstdio>
#include <string_view>

#include "cli/terminal/answer.h"

namespace nibble::cli {

struct AnswerPrinterOptions {
  std::FILE* reasoning{stderr};  // for reasoning and calls: a pipe on stdout gets the answer alone
  std::FILE* answer{stdout};
  bool hides_reasoning{false};  // one line says that the model thinks, in place of what it thinks
};

class AnswerPrinter {
 public:
  explicit AnswerPrinter(const AnswerPrinterOptions& options) : options_(options) {}

  void show(harmony::Part part, std::string_view text);
  void finish();  // ends the line and the dimming

 private:
  void open(harmony::Part part);
  void close();

  AnswerPrinterOptions options_;
  bool is_open_{false};
  harmony::Part part_{};
  bool at_line_start_{true};
};

}  // namespace nibble::cli
