// Parses C++ and CUDA source text as far as tests of its style need: its comments, and where functions begin
// and end.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::test {

// Returns the source with every comment, string and character literal blanked out. Line breaks stay, so line
// numbers do too.
std::string code_of(std::string_view source);
// The reverse: returns the source with everything but the text of comments blanked out.
std::string comments_of(std::string_view source);

struct FunctionText {
  std::string name;  // as written before its parameters: "Engine::Impl::finish"
  int first_line;    // of its signature, without a template's parameters
  int num_lines;     // up to its closing brace
  int num_parameters;
};
// The functions that a file defines, in order; a lambda belongs to the function around it.
std::vector<FunctionText> functions_of(std::string_view source);

struct SourceFile {
  std::string path;  // relative to the checkout
  std::string text;
};
// The C++ and CUDA files below a folder of the checkout, sorted by path.
std::vector<SourceFile> source_files(std::string_view folder);

}  // namespace nibble::test
