// Everything that is different on a terminal: dimmed text, lines typed by a person, ctrl-C.
#pragma once

#include <signal.h>

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "core/terminal.h"

namespace nibble::cli {

// The escape sequences where `stream` is a terminal that understands them, else nothing. NO_COLOR (no-color.org) switches them off.
std::string_view dim_on(std::FILE* stream);
std::string_view dim_off(std::FILE* stream);

// While one of these lives, ctrl-C is noted in place of ending the program. One at a time.
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

// Lines from standard input. Not std::getline: that can't wait for ctrl-C as well.
class LineReader {
 public:
  // `interrupt`: what else ends the waiting; null: nothing.
  explicit LineReader(const CatchInterrupt* interrupt) : interrupt_(interrupt) {}

  enum class Outcome { kLine, kSignal, kEnd };
  Outcome read(std::string& line);  // without its newline

 private:
  const CatchInterrupt* interrupt_;
  std::string pending_;
  bool has_ended_{false};
};

// All of standard input.
std::string read_input();

// Where `text` stops being valid UTF-8; nothing where it is valid.
std::optional<size_t> first_invalid_utf8(std::string_view text);

}  // namespace nibble::cli
