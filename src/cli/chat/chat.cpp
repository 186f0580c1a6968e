#include "cli/chat/chat.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "cli/chat/commands.h"
#include "cli/chat/conversation.h"
#include "cli/chat/line_editor.h"
#include "core/error.h"
#include "core/output.h"
#include "setup/capacity.h"
#include "setup/drafters.h"
#include "setup/load.h"
#include "setup/model.h"
#include "setup/resolve.h"
#include "setup/storage_formats.h"
#include "setup/tokenizer.h"

namespace nibble::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kChatFooter{R"(
ctrl-C stops the answer, not the program; ctrl-D or /quit ends the program. /help lists the commands. Lines can be edited as
in a shell: arrows and ctrl-R recall earlier questions, alt-Enter starts a new line, and a pasted text of several lines is
one question.

Examples:
  nibble chat tiny --temperature 0
  nibble chat openai/gpt-oss-20b --reasoning high --system "You are a patient teacher.")"};

// Returns the file for the history of typed lines; empty if no history is kept.
fs::path history_path(const Settings& settings) {
  if (settings.history) return *settings.history == "off" ? fs::path() : fs::path(*settings.history);
  if (const char* state = std::getenv("XDG_STATE_HOME"); state && *state)
    return fs::path(state) / "nibble/history";
  if (const char* home = std::getenv("HOME"); home && *home)
    return fs::path(home) / ".local/state/nibble/history";
  return {};
}

void converse(Conversation& conversation, const std::function<LineReader::Outcome(std::string&)>& read,
              CatchInterrupt& interrupt) {
  std::string line;
  while (!conversation.has_ended) {
    const LineReader::Outcome outcome = read(line);
    if (outcome == LineReader::Outcome::kEnd) break;
    if (outcome == LineReader::Outcome::kSignal) {
      interrupt.take();
      fmt::print("\n(/quit or ctrl-D ends the program)\n");
      continue;
    }
    if (line.find_first_not_of(" \t\r\n") == std::string::npos) continue;
    try {  // a refused line does not end the conversation
      obey_or_ask(conversation, line);
    } catch (const InputError& error) {
      fmt::print("{}\n", error.what());
    }
    flush(stdout);
  }
}

int chat(const std::string& argument, const Settings& settings) {
  ResolvedSettings setup = resolve(settings);
  const Model model = open_model(argument, setup.places);
  const Tokenizer tokenizer = open_tokenizer(model.source, setup.places);
  const Capacity capacity{context_of(model.config, setup), 1};
  open_drafters(setup, model, capacity);
  const BackendOptions room = backend_options(model.config, setup, capacity);
  const std::unique_ptr<Backend> backend = load(model, setup, room);
  load_draft_model(setup);
  Engine engine(*backend, tokenizer, engine_options(setup, room, capacity));

  CatchInterrupt interrupt;
  Conversation conversation(
      settings, {model.config, tokenizer, engine, formats_of(model, setup), capacity.context}, interrupt);
  const bool is_interactive = is_terminal(stdin);
  if (is_interactive)
    fmt::print("{}: /help lists the commands, ctrl-C stops an answer, ctrl-D ends the program.\n",
               model.source.name);
  if (LineEditor::works_here()) {
    LineEditor editor(interrupt, history_path(settings));
    converse(
        conversation, [&](std::string& line) { return editor.read(line); }, interrupt);
    return kDone;
  }
  LineReader reader(&interrupt);
  const auto read = [&](std::string& line) {
    if (is_interactive) fmt::print("> ");
    flush(stdout);
    return reader.read(line);
  };
  converse(conversation, read, interrupt);
  return kDone;
}

}  // namespace

Action define_chat(CLI::App& command, Settings& settings) {
  const auto model = std::make_shared<std::string>();
  add_model(command, *model);
  add_settings(command, settings,
               {SettingGroup::kInstruction, SettingGroup::kDate, SettingGroup::kSampling,
                SettingGroup::kAnswer, SettingGroup::kMachine, SettingGroup::kCache, SettingGroup::kDrafts,
                SettingGroup::kDevice, SettingGroup::kGpus, SettingGroup::kPlaces, SettingGroup::kChat});
  command.footer(kChatFooter);
  return [model, &settings] { return chat(*model, settings); };
}

}  // namespace nibble::cli
