#include "cli/chat/chat.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <optional>

#include "cli/terminal/answer.h"
#include "cli/terminal/answer_printer.h"
#include "cli/terminal/new_request.h"
#include "cli/terminal/speed.h"
#include "cli/terminal/terminal.h"
#include "core/error.h"
#include "harmony/chat.h"
#include "harmony/json.h"
#include "harmony/render.h"
#include "setup/load.h"

namespace nibble::cli {
namespace {

constexpr const char* kChatFooter{R"(
ctrl-C stops the answer, not the program; ctrl-D or /quit ends it. /help lists what else can be said to the program.

Examples:
  nibble chat tiny --temperature 0
  nibble chat openai/gpt-oss-20b --reasoning high --system "You are a patient teacher.")"};

class Conversation {
 public:
  Conversation(const Settings& settings, const ResolvedSettings& setup, const Model& model,
               const Tokenizer& tokenizer, Engine& engine, int context)
      : settings_(settings),
        setup_(setup),
        model_(model),
        tokenizer_(tokenizer),
        engine_(engine),
        context_(context) {
    chat_ = new_chat(settings_);
  }

  void talk();  // until its end

 private:
  struct Command {
    std::string_view name, argument, help;
    void (Conversation::*run)(const std::string& argument);
  };
  static const Command kCommands[];

  void answer(const std::string& question);
  void obey(const std::string& line);

  void help(const std::string&);
  void reset(const std::string&);
  void system(const std::string& text);
  void reasoning(const std::string& level);
  void fold(const std::string&);
  void thoughts(const std::string&);
  void history(const std::string&);
  void save(const std::string& file);
  void quit(const std::string&) { has_ended_ = true; }

  Settings settings_;
  const ResolvedSettings& setup_;
  const Model& model_;
  const Tokenizer& tokenizer_;
  Engine& engine_;
  int context_;
  CatchInterrupt interrupt_;
  harmony::Chat chat_;
  bool is_folded_{false};
  bool has_ended_{false};
};

constexpr Conversation::Command Conversation::kCommands[] = {
    {"help", "", "this list", &Conversation::help},
    {"reset", "", "forget the conversation", &Conversation::reset},
    {"system", "TEXT", "instructions to the model, from the next question on; without TEXT none",
     &Conversation::system},
    {"reasoning", "LEVEL", "how long it thinks: low, medium or high", &Conversation::reasoning},
    {"fold", "", "hide or show the model's thoughts", &Conversation::fold},
    {"thoughts", "", "the thoughts behind the last answer", &Conversation::thoughts},
    {"history", "", "the conversation so far", &Conversation::history},
    {"save", "FILE", "write the conversation as JSON, for 'nibble harmony render'", &Conversation::save},
    {"quit", "", "end the program", &Conversation::quit},
};

void Conversation::talk() {
  const bool is_interactive = is_terminal(stdin);
  if (is_interactive)
    fmt::print("{}: /help lists commands, ctrl-C stops an answer, ctrl-D ends.\n", model_.source.name);
  LineReader reader(&interrupt_);
  std::string line;
  while (!has_ended_) {
    if (is_interactive) fmt::print("> ");
    std::fflush(stdout);
    const LineReader::Outcome outcome = reader.read(line);
    if (outcome == LineReader::Outcome::kEnd) break;
    if (outcome == LineReader::Outcome::kSignal) {
      interrupt_.take();
      fmt::print("\n(/quit or ctrl-D ends the program)\n");
      continue;
    }
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {  // what is wrong with one line does not end the conversation
      if (line.starts_with("/"))
        obey(line);
      else
        answer(line);
    } catch (const InputError& error) {
      fmt::print("{}\n", error.what());
    }
  }
}

void Conversation::answer(const std::string& question) {
  if (const auto at = first_invalid_utf8(question))
    throw InputError("not valid UTF-8 from byte {} on; not sent", *at);
  harmony::Chat asked = chat_;
  asked.messages.emplace_back().text = question;
  const std::vector<TokenId> prompt = harmony::render(harmony::to_conversation(asked), tokenizer_, {}).tokens;
  if (prompt.size() >= static_cast<size_t>(context_))
    throw InputError("the conversation has grown to {} tokens and the context is {}: /reset begins a new one",
                     prompt.size(), context_);

  interrupt_.take();  // a ctrl-C from before the question is not for its answer
  AnswerPrinter printer({.reasoning = stdout, .hides_reasoning = is_folded_});
  Listener listener;
  listener.on_text = [&](harmony::Part part, std::string_view text) { printer.show(part, text); };
  listener.wants_to_stop = [&] { return interrupt_.take(); };
  const Answer answer = stream_harmony(engine_, tokenizer_,
                                       make_request(prompt, settings_, model_.config, tokenizer_, context_),
                                       settings_.stop, listener);
  printer.finish();
  fmt::print("{}{}{}\n", dim_on(stdout),
             describe(answer.finished, speed_of(model_.config, formats_of(model_, setup_), answer.finished)),
             dim_off(stdout));

  // A turn without words to the user is not remembered: a question that is answered by nothing would only confuse.
  if (answer.text.empty()) {
    fmt::print("{}no answer came; the question is forgotten{}\n", dim_on(stdout), dim_off(stdout));
    return;
  }
  chat_ = std::move(asked);
  harmony::ChatMessage& message = chat_.messages.emplace_back();
  message.role = harmony::Role::kAssistant;
  message.text = answer.text;
  message.reasoning = answer.reasoning;
}

void Conversation::obey(const std::string& line) {
  const size_t space = line.find(' ');
  const std::string name = line.substr(1, space - 1);
  std::string argument = space == std::string::npos ? "" : line.substr(space + 1);
  for (const Command& command : kCommands) {
    if (command.name != name) continue;
    (this->*command.run)(argument);
    return;
  }
  throw InputError("no command '/{}': /help lists them", name);
}

void Conversation::help(const std::string&) {
  for (const Command& command : kCommands)
    fmt::print("  {:<18} {}\n", fmt::format("/{} {}", command.name, command.argument), command.help);
}

void Conversation::reset(const std::string&) {
  chat_.messages.clear();
  fmt::print("A new conversation.\n");
}

void Conversation::system(const std::string& text) { chat_.instructions = text; }

void Conversation::reasoning(const std::string& level) {
  const std::optional<harmony::ReasoningEffort> effort = harmony::reasoning_effort_of(level);
  if (!effort) throw InputError("/reasoning '{}': accepted is one of low, medium, high", level);
  chat_.reasoning_effort = *effort;
}

void Conversation::fold(const std::string&) {
  is_folded_ = !is_folded_;
  fmt::print("Thoughts are {} from now on.\n", is_folded_ ? "hidden" : "shown");
}

void Conversation::thoughts(const std::string&) {
  if (chat_.messages.empty()) throw InputError("there is no answer yet");
  fmt::print("{}{}{}\n", dim_on(stdout), chat_.messages.back().reasoning, dim_off(stdout));
}

void Conversation::history(const std::string&) {
  for (const harmony::ChatMessage& message : chat_.messages)
    fmt::print("{}{}\n", message.role == harmony::Role::kUser ? "> " : "", message.text);
}

void Conversation::save(const std::string& file) {
  if (file.empty()) throw InputError("/save needs the name of a file");
  std::ofstream out(file);
  out << harmony::to_json(harmony::to_conversation(chat_)).dump(2) << '\n';
  if (!out.flush()) throw InputError("{} can't be written", file);
  fmt::print("{} messages written to {}\n", chat_.messages.size(), file);
}

int chat(const std::string& argument, const Settings& settings) {
  const ResolvedSettings setup = resolve(settings);
  const Model model = open_model(argument, setup.places);
  const Tokenizer tokenizer = open_tokenizer(model.source, setup.places);
  const Capacity capacity{context_of(model.config, setup), 1};
  const BackendOptions room = backend_options(model.config, setup, capacity);
  const std::unique_ptr<Backend> backend = load(model, setup, room);
  Engine engine(*backend, tokenizer, engine_options(setup, room, capacity));
  Conversation(settings, setup, model, tokenizer, engine, capacity.context).talk();
  return kDone;
}

}  // namespace

Action define_chat(CLI::App& command, Settings& settings) {
  const auto model = std::make_shared<std::string>();
  add_model(command, *model);
  add_settings(command, settings,
               {SettingGroup::kInstruction, SettingGroup::kSampling, SettingGroup::kMachine,
                SettingGroup::kCache, SettingGroup::kPlaces});
  command.footer(kChatFooter);
  return [model, &settings] { return chat(*model, settings); };
}

}  // namespace nibble::cli
