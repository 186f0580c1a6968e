// Terminal output and standard input: dimmed text, reading lines, ctrl-C.
#pragma once

#include <signal.h>

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "core/terminal.h"

namespace nibble::cli {

// Return escape sequences if `stream` is a terminal that understands them, otherwise empty. NO_COLOR
// (no-color.org) disables them.
std::string_view dim_on(std::FILE* stream);
std::string_view dim_off(std::FILE* stream);

// While a CatchInterrupt exists, ctrl-C is recorded instead of ending the program. At
// most one may exist at a time.
class CatchInterrupt {
 public:
  CatchInterrupt();
  ~CatchInterrupt();
  CatchInterrupt(const CatchInterrupt&) = delete;
  CatchInterrupt& operator=(const CatchInterrupt&) = delete;

  bool take();                              // whether ctrl-C was pressed since the last call
  int descriptor() const { return read_; }  // becomes readable on ctrl-C

 private:
  int read_, write_;  // the ends of a pipe
  struct sigaction previous_;
};

// Reads lines from standard input. Unlike std::getline, it returns on ctrl-C.
class LineReader {
 public:
  // A ctrl-C recorded by `interrupt` ends the wait for a line. With null, only a line
  // or the end of the input does.
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

// Returns the offset of the first byte that is not valid UTF-8; nullopt if all of `text` is valid.
std::optional<size_t> first_invalid_utf8(std::string_view text);

}  // namespace nibble::cli
