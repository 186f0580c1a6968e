// nibble chat: a conversation in the terminal.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cli/chat/commands.h"
#include "cli/chat/conversation.h"
#include "cli/chat/line_editor.h"
#include "cli/chat/local_answerer.h"
#include "cli/chat/remote_answerer.h"
#include "cli/command.h"
#include "cli/options.h"
#include "core/console/output.h"
#include "core/errors/error.h"
#include "setup/model/model.h"
#include "setup/model/template_notice.h"
#include "setup/model/tokenizer.h"
#include "setup/plan/capacity.h"
#include "setup/plan/experts.h"
#include "setup/plan/storage_formats.h"
#include "setup/start/drafters.h"
#include "setup/start/load.h"
#include "setup/start/resolve.h"

namespace nibble::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kChatFooter{R"(
ctrl-C stops the answer, not the program; ctrl-D or /quit ends the program. /help lists the commands. Lines can be edited as
in a shell: arrows and ctrl-R recall earlier questions, Tab completes commands and files, alt-Enter starts a new line, and a
pasted text of several lines is one question, as are lines between two """.

Examples:
  nibble chat tiny --temperature 0
  nibble chat openai/gpt-oss-20b --reasoning high --system "You are a patient teacher."
  nibble chat --server http://127.0.0.1:8080)"};

struct ChatOptions {
  std::string model;  // empty only with a server
  std::optional<std::string> server, api_key;
  bool shows_stats{false};
};

// Returns the file for the history of typed lines; empty if no history is kept.
fs::path history_path(const Settings& settings) {
  if (settings.history) return *settings.history == "off" ? fs::path() : fs::path(*settings.history);
  if (const char* state = std::getenv("XDG_STATE_HOME"); state && *state)
    return fs::path(state) / "nibble/history";
  if (const char* home = std::getenv("HOME"); home && *home)
    return fs::path(home) / ".local/state/nibble/history";
  return {};
}

// Reads a line after showing `prompt`.
using ReadLine = std::function<LineReader::Outcome(std::string& line, const char* prompt)>;

constexpr std::string_view kBlock{"\"\"\""};  // begins and ends a question of several lines

// Reads a question: one line, or several lines if the first begins with kBlock. The last of them ends with
// kBlock. Removes both marks.
LineReader::Outcome read_question(std::string& question, const ReadLine& read) {
  const LineReader::Outcome outcome = read(question, "> ");
  const bool is_pasted = question.find('\n') != std::string::npos;
  if (outcome != LineReader::Outcome::kLine || is_pasted || !question.starts_with(kBlock)) return outcome;
  question.erase(0, kBlock.size());
  std::string line;
  while (!question.ends_with(kBlock)) {
    const LineReader::Outcome next = read(line, ". ");
    if (next == LineReader::Outcome::kSignal) return next;
    if (next == LineReader::Outcome::kEnd) return LineReader::Outcome::kLine;
    question += "\n" + line;
  }
  question.resize(question.size() - kBlock.size());
  question.erase(0, question.find_first_not_of('\n'));
  question.erase(question.find_last_not_of('\n') + 1);
  return LineReader::Outcome::kLine;
}

void converse(Conversation& conversation, const ReadLine& read, CatchInterrupt& interrupt) {
  std::string line;
  while (!conversation.has_ended) {
    const LineReader::Outcome outcome = read_question(line, read);
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

// Reads questions until the end of the input or /quit. `name`: name of the model, to show at the start.
void talk(const ChatOptions& options, const Settings& settings, Answerer& answerer, const std::string& name) {
  CatchInterrupt interrupt;
  Conversation conversation(settings, answerer, interrupt);
  conversation.shows_stats = options.shows_stats;
  const bool is_interactive = is_terminal(stdin);
  if (is_interactive)
    fmt::print("{}: /help lists the commands, ctrl-C stops an answer, ctrl-D ends the program.\n", name);
  if (LineEditor::works_here()) {
    LineEditor editor(interrupt, history_path(settings),
                      [](std::string_view line) { return complete(line, chat_names()); });
    converse(
        conversation, [&](std::string& line, const char* prompt) { return editor.read(line, prompt); },
        interrupt);
    return;
  }
  LineReader reader(&interrupt);
  const auto read = [&](std::string& line, const char* prompt) {
    if (is_interactive) fmt::print("{}", prompt);
    flush(stdout);
    return reader.read(line);
  };
  converse(conversation, read, interrupt);
}

void talk_to_server(const ChatOptions& options, const Settings& settings) {
  Endpoint endpoint = read_endpoint(*options.server);
  const char* variable = std::getenv("NIBBLE_API_KEY");
  endpoint.api_key = options.api_key.value_or(variable ? variable : "");
  RemoteAnswerer answerer(endpoint, options.model);
  talk(options, settings, answerer, fmt::format("{} at {}", answerer.model(), endpoint.url()));
}

int chat(const ChatOptions& options, const Settings& settings) {
  if (options.server) {
    talk_to_server(options, settings);
    return kDone;
  }
  if (options.model.empty()) throw InputError("MODEL is required, or --server URL; see 'nibble chat --help'");
  if (options.api_key) throw InputError("--api-key needs --server");
  ResolvedSettings setup = resolve(settings);
  const Model model = open_model_for(options.model, setup);
  report_template(model.source);
  const Tokenizer tokenizer = open_tokenizer(model.source, setup.places);
  const Capacity capacity{context_of(model.config, setup), 1};
  open_drafters(setup, model, capacity);
  const BackendOptions room = backend_options(model.config, setup, capacity);
  const std::unique_ptr<Backend> backend = load(model, setup, room);
  load_draft_model(setup);
  Engine engine(*backend, tokenizer, engine_options(setup, room, capacity));
  LocalAnswerer answerer({model.config, tokenizer, engine, formats_of(model, setup), capacity.context});
  talk(options, settings, answerer, model.source.name);
  return kDone;
}

}  // namespace

Action define_chat(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<ChatOptions>();
  add_model(command, options->model)->required(false);
  add_value(command, "--server", "URL", options->server,
            "talk to the server at URL (http://127.0.0.1:8080) instead of loading a model;\n"
            "MODEL is then what the server calls it [the first one that it lists]");
  add_value(command, "--api-key", "KEY", options->api_key,
            "key to send to the server [the variable NIBBLE_API_KEY]");
  command.add_flag("--stats", options->shows_stats,
                   "print token counts and speed after each answer; /stats changes it");
  add_settings(command, settings,
               {SettingGroup::kInstruction, SettingGroup::kDate, SettingGroup::kSampling,
                SettingGroup::kAnswer, SettingGroup::kMachine, SettingGroup::kCache, SettingGroup::kDrafts,
                SettingGroup::kDevice, SettingGroup::kGpus, SettingGroup::kPlaces, SettingGroup::kChat});
  command.footer(kChatFooter);
  return [options, &settings] { return chat(*options, settings); };
}

}  // namespace nibble::cli
