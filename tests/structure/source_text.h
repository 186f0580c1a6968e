// Parses C++ and CUDA source text as far as style tests need: its comments, and where functions begin and
// end.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::test {

// Returns the source with every comment, string and character literal blanked out. Line breaks stay, so that
// line numbers stay too.
std::string code_of(std::string_view source);
// Returns the source with everything blanked out except the text of comments.
std::string comments_of(std::string_view source);

struct FunctionText {
  std::string name;  // as written before the parameters: "Engine::Impl::finish"
  int first_line;    // first line of the signature, after a template's parameters
  int num_lines;     // number of lines up to the closing brace
  int num_parameters;
};
// Returns the functions that a file defines, in order. A lambda is part of the function around it.
std::vector<FunctionText> functions_of(std::string_view source);

struct SourceFile {
  std::string path;  // relative to the checkout
  std::string text;
};
// Returns the C++ and CUDA files below a folder of the checkout, sorted by path.
std::vector<SourceFile> source_files(std::string_view folder);

}  // namespace nibble::test
