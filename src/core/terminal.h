// Finds out whether a stream is a terminal, and what it understands.
#pragma once

#include <cstddef>
#include <cstdio>

namespace nibble {

bool is_terminal(std::FILE* stream);

// A terminal that can erase lines and dim text: one whose TERM is set and not "dumb".
bool understands_escapes(std::FILE* stream);

size_t num_columns(std::FILE* terminal);  // 80 where it does not say

}  // namespace nibble
