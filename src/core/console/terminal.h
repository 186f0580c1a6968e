// Reports whether a stream is a terminal, and what the terminal can do.
#pragma once

#include <cstddef>
#include <cstdio>

namespace nibble {

bool is_terminal(std::FILE* stream);

// Whether `stream` is a terminal that can erase lines and dim text: TERM is set and not "dumb".
bool understands_escapes(std::FILE* stream);

size_t num_columns(std::FILE* terminal);  // width; 80 if unknown

}  // namespace nibble
