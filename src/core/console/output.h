// Writes text to stdout and stderr. A failed write to stdout, the output of the command, throws
// std::system_error. A failed write to stderr (2>/dev/full, 2>&-) is ignored.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <utility>

namespace nibble {

void write_to(std::FILE* stream, std::string_view text);
void flush(std::FILE* stream);

// Unlike fmt::print(), never throws for stderr: an exception in a destructor would end the program.
template <typename... Args>
void print_to(std::FILE* stream, fmt::format_string<Args...> format, Args&&... args) {
  write_to(stream, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace nibble
