#include "cli/program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/help.h"
#include "cli/profile/profile.h"
#include "cli/standard_streams.h"
#include "cli/start_line/translate.h"
#include "cli/unknown_variables.h"
#include "cli/version.h"
#include "core/console/output.h"
#include "core/errors/error.h"
#include "core/files/lost_pages.h"
#include "core/program/log.h"
#include "nodes/node_lost.h"

namespace nibble::cli {
namespace {

constexpr CommandRow kCommands[] = {
    {"run", "answer one prompt", &define_run},
    {"chat", "chat in the terminal", &define_chat},
    {"serve", "serve a model over HTTP, with the OpenAI API", &define_serve},
    {"models", "list the models on this machine, and which of them run here", &define_models},
    {"inspect", "show the parts of a model, the memory it needs and the kernels that would run it",
     &define_inspect},
    {"eval", "measure the quality of a model: perplexity, tasks, agreement with golden data", &define_eval},
    {"diff", "find the first layer and operation in which two backends, formats or builds differ",
     &define_diff},
    {"bench",
     "measure the speed of a model: prefill and decode, as a share of the memory bandwidth;\n"
     "its commands measure many clients, drafts, and a server under load",
     &define_bench},
    {"profile", "show where the time of one step goes", &define_profile},
    {"predict", "predict the speed of a model on a GPU that this machine may not have", &define_predict},
    {"tune", "find the fastest settings for this CPU, or time the kernels of a GPU; optional", &define_tune},
    {"verify", "check every kernel on this machine", &define_verify},
    {"tokenize", "convert text to token ids and back", &define_tokenize},
    {"harmony", "render a conversation to tokens, and parse tokens to messages", &define_harmony},
    {"convert", "write a model as a GGUF file or as a checkpoint folder", &define_convert},
    {"manual", "print the manual page of nibble or of a command", &define_manual},
    {"completions", "print shell completions for bash, zsh or fish", &define_completions},
};

constexpr const char* kCommandFooter{R"(

Flags of the groups Instructions, Sampling, Machine and Places can also be set by environment variables:
--max-batch-tokens by NIBBLE_MAX_BATCH_TOKENS, and so on. A flag takes precedence.)"};

constexpr const char* kMainFooter{R"(
Settings (the help groups Instructions, Sampling, Machine and Places) can also be set by environment variables:
--max-batch-tokens by NIBBLE_MAX_BATCH_TOKENS, and so on. A flag takes precedence.

Exit codes: 0 done; 1 a check failed (eval --golden, verify, diff, bench compare --fail-on); 2 bad input, one line on stderr
says what is expected; 3 out of memory, a full disk, output that cannot be written, a file of the model that was changed or
cut short while in use, or another failure of the machine; 4 another node was lost (--nodes): restart the process; 5 (serve)
the GPU was lost, a file of the model was changed, or every step failed: restart the process; 130 interrupted by ctrl-C, or a
server did not answer every request in full.

Examples:
  nibble run tiny -p "What is 17 + 25?" --temperature 0
  nibble chat openai/gpt-oss-20b
  nibble serve openai/gpt-oss-20b --port 8000
  nibble inspect synthetic:gpt-oss-120b --context 131072)"};

const std::string kOutputFailed{"cannot write the output: "};

void print_error(std::string message) {  // on one line
  for (char& letter : message)
    if (letter == '\n' || letter == '\r') letter = ' ';
  print_to(stderr, "nibble: {}\n", message);
}

// If `message` is about a flag that replaces another engine's flag, appends what the user typed.
std::string with_origin(const std::string& message, const StartLine& line) {
  const std::string flag = message.substr(0, message.find_first_of(" :"));
  for (const std::string& note : line.notes)
    if (note.find(fmt::format(" is read as {} ", flag)) != std::string::npos)
      return fmt::format("{} ({})", message, note);
  return message;
}

int run_command(int argc, char** argv) {
  CLI::App program("nibble runs OpenAI's gpt-oss models: MXFP4 experts, one program, no downloads.",
                   "nibble");
  program.require_subcommand(1);
  program.set_version_flag(
      "--version", [] { return version_text(); }, "commit, build, instruction sets, backends");
  program.formatter(std::make_shared<HelpFormatter>(help_width()));
  program.footer(kMainFooter);
  Settings settings;
  settings.build = this_build().name;
  Action action;
  StartLine line;
  for (const CommandRow& row : kCommands) {
    CLI::App* command = program.add_subcommand(row.name, row.what);
    const Action act = row.define(*command, settings);
    command->footer(command->get_footer() + kCommandFooter);
    command->callback([&settings, &action, act, command] {
      read_environment(chosen_command(*command), settings);
      action = act;
    });
  }
  try {
    line = translate(program, {argv + std::min(argc, 1), argv + argc});
    // parse() of CLI11 takes the arguments in reverse order.
    std::vector<std::string> reversed(line.arguments.rbegin(), line.arguments.rend());
    program.parse(std::move(reversed));
  } catch (const CLI::CallForVersion& call) {
    fmt::print("{}", call.what());
    return kDone;
  } catch (const CLI::Success&) {  // --help
    fmt::print("{}", program.help());
    return kDone;
  } catch (const CLI::ParseError& error) {
    throw InputError("{}", with_origin(explain(program, error), line));
  } catch (const InputError& error) {
    throw InputError("{}", with_origin(error.what(), line));
  }
  log::start(spdlog::level::from_str(settings.log_level),
             settings.log_format == "json" ? log::Format::kJson : log::Format::kText);
  for (const std::string& warning : warnings_of_unknown_variables(environ)) log::warn("{}", warning);
  const CLI::App& chosen = chosen_command(program);
  for (const std::string& note : notes_of_unused_variables(chosen, path_of(chosen))) log::info("{}", note);
  for (const std::string& hint : hints_of_foreign_variables(environ)) log::info("{}", hint);
  for (const std::string& note : line.notes) log::warn("{}", note);
  return action();
}

// A path that the system does not let this user follow is bad input; other failures are the machine's.
int print_file_error(const std::filesystem::filesystem_error& error) {
  print_error(fmt::format("{}: cannot be used: {}", error.path1().string(), error.code().message()));
  for (const std::errc bad : {std::errc::permission_denied, std::errc::too_many_symbolic_link_levels,
                              std::errc::filename_too_long, std::errc::no_such_file_or_directory})
    if (error.code() == bad) return kBadInput;
  return kFailed;
}

// Turns exceptions into a line on stderr and an exit code.
int run_safely(int argc, char** argv) {
  try {
    return run_command(argc, argv);
  } catch (const InputError& error) {
    print_error(error.what());
    return kBadInput;
  } catch (const nodes::NodeLost& error) {
    print_error(error.what());
    return kNodeLost;
  } catch (const std::bad_alloc&) {
    print_error("out of memory: reduce --context, --max-sequences or --max-batch-tokens");
    return kFailed;
  } catch (const std::filesystem::filesystem_error& error) {
    return print_file_error(error);
  } catch (const std::system_error& error) {
    print_error(std::ferror(stdout) ? kOutputFailed + error.code().message() : error.what());
    return kFailed;
  } catch (const std::exception& error) {
    print_error(error.what());
    return kFailed;
  }
}

int check_output(int code) {  // returns kFailed if output was lost, even if the command succeeded
  const std::optional<std::string> why = finish_output();
  if (!why || code == kBadInput || code == kFailed) return code;
  print_error(kOutputFailed + *why);
  return kFailed;
}

}  // namespace

int run_program(int argc, char** argv) {
  prepare_standard_streams();
  exit_on_lost_pages(kFailed);
  return check_output(run_safely(argc, argv));
}

}  // namespace nibble::cli
