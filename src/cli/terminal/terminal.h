// The terminal and standard input: dimmed text, lines, ctrl-C.
#pragma once

#include <signal.h>

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "core/terminal.h"

namespace nibble::cli {

// Escape sequences where `stream` is a terminal that understands them, else empty. NO_COLOR (no-color.org) switches them off.
std::string_view dim_on(std::FILE* stream);
std::string_view dim_off(std::FILE* stream);

// As long as a CatchInterrupt lives, ctrl-C is noted and does not end the program. At most one may live at a time.
class CatchInterrupt {
 public:
  CatchInterrupt();
  ~CatchInterrupt();
  CatchInterrupt(const CatchInterrupt&) = delete;
  CatchInterrupt& operator=(const CatchInterrupt&) = delete;

  bool take();                              // whether ctrl-C was pressed since the last call
  int descriptor() const { return read_; }  // becomes readable with ctrl-C

 private:
  int read_, write_;  // the ends of a pipe
  struct sigaction previous_;
};

// Reads lines from standard input. std::getline would not return for ctrl-C.
class LineReader {
 public:
  // ctrl-C in `interrupt` ends the waiting for a line. Null: only a line or the end of the input does.
  explicit LineReader(const CatchInterrupt* interrupt) : interrupt_(interrupt) {}

  enum class Outcome { kLine, kSignal, kEnd };
  Outcome read(std::string& line);  // without its newline

 private:
  const CatchInterrupt* interrupt_;
  std::string pending_;
  bool has_ended_{false};
};

// Reads all of standard input.
std::string read_input();

// The offset of the first byte that is not valid UTF-8. Not set: all of `text` is valid.
std::optional<size_t> first_invalid_utf8(std::string_view text);

}  // namespace nibble::cli
