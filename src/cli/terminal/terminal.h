// Terminal output and standard input: dimmed text, reading lines, ctrl-C.
#pragma once

#include <signal.h>

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "core/console/terminal.h"

namespace nibble::cli {

// Return the escape sequences that switch dimmed text on and off; empty if `stream` can't show dimmed text or
// if NO_COLOR (no-color.org) is set.
std::string_view dim_on(std::FILE* stream);
std::string_view dim_off(std::FILE* stream);

// While this object exists, ctrl-C is recorded and does not end the program. At most one object at a time.
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

// Reads lines from stdin. Unlike std::getline, read() returns on ctrl-C.
class LineReader {
 public:
  // With `interrupt`, ctrl-C ends read(). If it is null, ctrl-C has its usual effect.
  explicit LineReader(const CatchInterrupt* interrupt) : interrupt_(interrupt) {}

  enum class Outcome { kLine, kSignal, kEnd };
  Outcome read(std::string& line);  // reads a line into `line`, without its newline

 private:
  const CatchInterrupt* interrupt_;
  std::string pending_;
  bool has_ended_{false};
};

std::string read_input();

// Whether input was given on stdin. True if stdin is a pipe, a file or a socket; false if stdin is a
// terminal, a device or closed.
bool has_input();

// Returns the offset of the first byte that is not valid UTF-8; nullopt if all bytes are valid.
std::optional<size_t> first_invalid_utf8(std::string_view text);

}  // namespace nibble::cli
