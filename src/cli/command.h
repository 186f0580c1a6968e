// Shared by all commands: exit codes, the flags that the table of settings gives a command, and messages about wrong flags.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>

#include "core/settings.h"

namespace CLI {  // its header is large, and only a command's own file and main.cpp need it
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace nibble::cli {

// Exit codes; --help documents them.
inline constexpr int kDone{0};         // all went well
inline constexpr int kCheckFailed{1};  // eval --golden or verify found a difference
inline constexpr int kBadInput{2};  // a flag, a file or a request can't be used; one line on stderr says why
inline constexpr int kFailed{3};    // out of memory, or the disk is full
inline constexpr int kNodeLost{
    4};  // another node was lost, or did not come; all nodes end so, to be started again
inline constexpr int kEngineLost{5};    // serve: the device or the engine is lost; a new process may work
inline constexpr int kSignalBase{128};  // plus the number of the signal that ended it, as shells report it
inline constexpr int kInterrupted{kSignalBase + 2};  // by ctrl-C

// Runs the command after its flags were parsed. Returns the exit code.
using Action = std::function<int()>;

// Adds the positional argument MODEL.
CLI::Option* add_model(CLI::App& command, std::string& model);

// Adds the flags of these groups, in the order of the table.
void add_settings(CLI::App& command, Settings& settings, std::initializer_list<SettingGroup> groups);

// Sets the command's settings from NIBBLE_* variables where the flag was not given.
void read_environment(const CLI::App& command, Settings& settings);

// Whether the command line or a NIBBLE_* variable sets this flag of the command, also by its other name.
bool is_given(const CLI::App& command, const CLI::Option& option);

// The command line for records of measurements: NIBBLE_* variables in front, flags by their long names, API keys left out.
// Nothing is quoted.
std::string command_line(const CLI::App& command);

// One line that says what the parser refused and what is accepted.
std::string explain(const CLI::App& program, const CLI::ParseError& error);

}  // namespace nibble::cli
