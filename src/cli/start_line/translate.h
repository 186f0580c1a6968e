// Translates the command line of another engine: replaces its flags by nibble's, drops those that nibble does
// not need, and refuses the others with a reason. Leaves flags without a row in table.cpp to the parser.
#pragma once

#include <string>
#include <vector>

// Forward declaration: CLI11's header is large.
namespace CLI {
class App;
}  // namespace CLI

namespace nibble::cli {

struct StartLine {
  std::vector<std::string> arguments;  // with nibble's flags only
  std::vector<std::string> notes;      // for the log: how each flag of another engine was read
};

// `arguments`: those after the program's name. Throws an InputError that names all refused flags.
StartLine translate(const CLI::App& program, const std::vector<std::string>& arguments);

// Returns a line for each environment variable of another engine that is set. nibble reads none of them.
std::vector<std::string> hints_of_foreign_variables(const char* const* environment);

}  // namespace nibble::cli
