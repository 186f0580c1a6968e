// Assembles the prompt of `nibble run` from -p, files and standard input.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace nibble::cli {

struct PromptSources {
  std::optional<std::string> text;  // -p
  std::vector<std::string> files;   // -f
};

// Returns the text, then the files in their order, then standard input, with a blank line between them.
// Standard input is read if it has_input() or is the only source. Newlines at the end of files and of
// standard input are dropped, unless `is_raw`. Throws InputError if a file can't be read, a source is not
// UTF-8, or all are empty.
std::string read_prompt(const PromptSources& sources, bool is_raw);

// Returns `parts` without the empty ones, with a blank line between them.
std::string join_parts(const std::vector<std::string>& parts);

}  // namespace nibble::cli
