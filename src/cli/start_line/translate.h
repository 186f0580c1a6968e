// Translates the command line of another engine: replaces its flags by nibble's, drops flags that nibble does
// not need, and refuses others with a reason. Flags without a row in table.cpp are left to the parser.
#pragma once

#include <string>
#include <vector>

// Forward declaration: CLI11's header is large.
namespace CLI {
class App;
}  // namespace CLI

namespace nibble::cli {

struct StartLine {
  std::vector<std::string> arguments;  // flags of nibble only
  std::vector<std::string> notes;      // lines for the log: how each flag of another engine was read
};

// `arguments`: the arguments after the program's name. Throws an InputError that names all refused flags.
StartLine translate(const CLI::App& program, const std::vector<std::string>& arguments);

// Returns a hint for each environment variable of another engine that is set: nibble reads none of these.
std::vector<std::string> hints_of_foreign_variables(const char* const* environment);

}  // namespace nibble::cli
