// Shows an answer to a person: thoughts and calls dimmed and apart, the answer plain.
#pragma once

#include <cstdio>
#include <string_view>

#include "cli/terminal/answer.h"

namespace nibble::cli {

struct PrinterOptions {
  std::FILE* thoughts{
      stderr};  // reasoning and calls; apart from the answer, so that a pipe gets the answer alone
  std::FILE* answer{stdout};
  bool fold{false};  // say that the model thinks, not what
};

class Printer {
 public:
  explicit Printer(const PrinterOptions& options) : options_(options) {}

  void show(harmony::Part part, std::string_view text);
  void finish();  // ends the line and the dimming

 private:
  void open(harmony::Part part);
  void close();

  PrinterOptions options_;
  bool is_open_{false};
  harmony::Part part_{};
  bool at_line_start_{true};
};

}  // namespace nibble::cli
