// What the commands share: how a command is defined, and the flags that the table of settings gives it.
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
inline constexpr int kCheckFailed{1};  // a check that was asked for did not hold: eval --golden, verify
inline constexpr int kBadInput{2};  // a flag, a file or a request can't be used; one line on stderr says why
inline constexpr int kFailed{3};    // out of memory, or the disk is full
inline constexpr int kSignalBase{128};  // plus the number of the signal that ended it, as shells have it
inline constexpr int kInterrupted{kSignalBase + 2};  // by ctrl-C

// What runs once the flags are read; the value is the exit code.
using Action = std::function<int()>;

// The positional argument MODEL.
CLI::Option* add_model(CLI::App& command, std::string& model);

// Adds the flags of these groups, in the order of the table.
void add_settings(CLI::App& command, Settings& settings, std::initializer_list<SettingGroup> groups);

// After the flags: the NIBBLE_* variables, for the settings of this command whose flag was not given.
void read_environment(const CLI::App& command, Settings& settings);

// The command with what it was given, NIBBLE_* variables in front and flags by their long names: for records of
// measurements. Nothing is quoted, keys of an API are left out.
std::string command_line(const CLI::App& command);

// One line for what the parser did not like, and what is accepted in its place.
std::string explain(const CLI::App& program, const CLI::ParseError& error);

}  // namespace nibble::cli
