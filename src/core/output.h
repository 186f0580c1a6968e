// Writes text to stdout and stderr. stdout carries the output of a command: a failed write fails the command.
// stderr carries messages for people: a failed write (2>/dev/full, 2>&-) is ignored, and the work continues.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <utility>

namespace nibble {

// Both throw std::system_error on a failed write, except to stderr.
void write_to(std::FILE* stream, std::string_view text);
void flush(std::FILE* stream);

// Use this instead of fmt::print(), which throws for stderr too: that would end the program when a destructor
// or an error handler prints.
template <typename... Args>
void print_to(std::FILE* stream, fmt::format_string<Args...> format, Args&&... args) {
  write_to(stream, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace nibble
