// Shared by all commands: exit codes, the flags that a command gets from the table of settings, and
// messages about wrong flags.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>

#include "core/settings.h"

namespace CLI {  // forward declarations: the header is large, and only the files that define commands need it
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace nibble::cli {

// Exit codes; --help documents them.
inline constexpr int kDone{0};         // success
inline constexpr int kCheckFailed{1};  // eval --golden or verify found a difference
inline constexpr int kBadInput{2};     // a flag, a file or a request is wrong; one line on stderr says why
inline constexpr int kFailed{3};       // the machine failed: out of memory, disk full, output not writable
// Another node was lost or did not join. All nodes exit with this code, to be restarted together.
inline constexpr int kNodeLost{4};
inline constexpr int kEngineLost{5};    // serve: the device or the engine is lost; a new process may work
inline constexpr int kSignalBase{128};  // plus the number of the signal that ended the process, as in shells
inline constexpr int kInterrupted{kSignalBase + 2};  // ctrl-C (SIGINT)

// Runs the command after its flags have been parsed. Returns the exit code.
using Action = std::function<int()>;

// A row of a table of commands. `define` adds the flags of the command and returns what it does.
struct CommandRow {
  const char* name;
  const char* what;
  Action (*define)(CLI::App& command, Settings& settings);
};

// Adds the positional argument MODEL.
CLI::Option* add_model(CLI::App& command, std::string& model);

// Adds the flags of these groups to the command, in table order.
void add_settings(CLI::App& command, Settings& settings, std::initializer_list<SettingGroup> groups);

// Sets the settings of the command from NIBBLE_* variables, unless the flag was given.
void read_environment(const CLI::App& command, Settings& settings);

// Returns the innermost command that was given, or the program itself if none was.
const CLI::App& chosen_command(const CLI::App& program);

// Returns whether the command line or a NIBBLE_* variable sets this flag of the command, under any of its
// names.
bool is_given(const CLI::App& command, const CLI::Option& option);

// Returns the command line for records of measurements: NIBBLE_* variables first, flags by their long names,
// API keys replaced by "...". Nothing is quoted.
std::string command_line(const CLI::App& command);

// Returns one line: what the parser refused and what is accepted.
std::string explain(const CLI::App& program, const CLI::ParseError& error);

}  // namespace nibble::cli
