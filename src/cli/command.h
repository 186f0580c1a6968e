// Exit codes, the flags that commands get from the table of settings, and messages about wrong flags.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>

#include "core/program/settings.h"

// Forward declarations of CLI11's types: its header is large, and only files that define commands need it.
namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace nibble::cli {

// Exit codes; --help documents them.
inline constexpr int kDone{0};  // success
// A check failed: eval --golden, verify, diff, or bench compare --fail-on.
inline constexpr int kCheckFailed{1};
inline constexpr int kBadInput{2};  // a flag, a file or a request is wrong; one line on stderr says why
inline constexpr int kFailed{3};    // the machine failed: out of memory, disk full, output not writable
// A node was lost or did not join. All nodes exit with this code, and must be restarted together.
inline constexpr int kNodeLost{4};
inline constexpr int kEngineLost{5};  // serve: the device or the engine is lost; a restart may help
// Base of exit codes after a signal, as in shells: the signal's number is added.
inline constexpr int kSignalBase{128};
inline constexpr int kInterrupted{kSignalBase + 2};  // ctrl-C (SIGINT)

using Action = std::function<int()>;  // runs a command; returns the exit code

struct CommandRow {  // a command; `define` adds its flags and returns the action that runs it
  const char* name;
  const char* what;
  Action (*define)(CLI::App& command, Settings& settings);
};

// The commands. Each function is defined in the file, or in the folder, that has the name of its command.
Action define_run(CLI::App& command, Settings& settings);
Action define_chat(CLI::App& command, Settings& settings);
Action define_serve(CLI::App& command, Settings& settings);
Action define_models(CLI::App& command, Settings& settings);
Action define_inspect(CLI::App& command, Settings& settings);
Action define_eval(CLI::App& command, Settings& settings);
Action define_diff(CLI::App& command, Settings& settings);
Action define_bench(CLI::App& command, Settings& settings);
Action define_bench_serve(CLI::App& command, Settings& settings);
Action define_profile(CLI::App& command, Settings& settings);
Action define_predict(CLI::App& command, Settings& settings);
Action define_tune(CLI::App& command, Settings& settings);
Action define_verify(CLI::App& command, Settings& settings);
Action define_tokenize(CLI::App& command, Settings& settings);
Action define_harmony(CLI::App& command, Settings& settings);
Action define_convert(CLI::App& command, Settings& settings);
Action define_manual(CLI::App& command, Settings& settings);
Action define_completions(CLI::App& command, Settings& settings);

CLI::Option* add_model(CLI::App& command, std::string& model);

// Adds the flags of all settings in `groups`, in the order of the table of settings.
void add_settings(CLI::App& command, Settings& settings, std::initializer_list<SettingGroup> groups);

// Applies NIBBLE_* variables to settings whose flag is not given.
void read_environment(const CLI::App& command, Settings& settings);

// Returns the innermost subcommand on the command line, or `program` if it has none.
const CLI::App& chosen_command(const CLI::App& program);

// Refuses arguments between `command` and its subcommand `given`, because the subcommand would not read them.
void check_nothing_before(const CLI::App& command, const CLI::App& given);

// Whether the command line or a NIBBLE_* variable sets this flag, under any of its names.
bool is_given(const CLI::App& command, const CLI::Option& option);

// Returns the command line for records: NIBBLE_* variables first, every flag in its long form, "..." for API
// keys. Values are not quoted.
std::string command_line(const CLI::App& command);

// Returns one line: what the parser refused, and what would be accepted.
std::string explain(const CLI::App& program, const CLI::ParseError& error);

std::string path_of(const CLI::App& command);  // the command's full name: "nibble harmony render"

}  // namespace nibble::cli
