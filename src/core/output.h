// Text to stdout and stderr. What goes to stdout is a command's answer: a command whose answer can't be written has failed. What goes
// to stderr is said to people: where that can't be written (2>/dev/full, 2>&-) nobody is listening, and the work goes on.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <utility>

namespace nibble {

// Throw std::system_error where the text can't be written, but for stderr.
void write_to(std::FILE* stream, std::string_view text);
void flush(std::FILE* stream);

// fmt::print() throws for stderr as well, which ends the program where a destructor or a handler of errors calls it.
template <typename... Args>
void print_to(std::FILE* stream, fmt::format_string<Args...> format, Args&&... args) {
  write_to(stream, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace nibble
