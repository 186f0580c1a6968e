#include "cli/chat/commands.h"

#include <fmt/format.h>

#include <string_view>

#include "core/errors/error.h"
#include "core/files/mapped_file.h"
#include "core/files/new_file.h"
#include "core/text/json.h"
#include "core/text/near_name.h"
#include "harmony/json.h"

namespace nibble::cli {
namespace {

struct ChatCommand {
  std::string_view name, argument, help;
  void (*run)(Conversation& conversation, const std::string& argument);
};
void list_chat_commands(Conversation&, const std::string&);

void forget_conversation(Conversation& conversation, const std::string&) {
  conversation.forget();
  fmt::print("Started a new conversation.\n");
}

void ask_again(Conversation& conversation, const std::string&) { conversation.ask_again(); }

void change_setting(Conversation& conversation, const std::string& argument) {
  if (argument.empty()) {
    for (const Setting* setting : Conversation::changeable_settings())
      fmt::print("  {:<20} {} [{}]\n", setting->name, setting->help,
                 value_of(conversation.settings(), *setting));
    return;
  }
  const size_t space = argument.find(' ');
  conversation.set(argument.substr(0, space), space == std::string::npos ? "" : argument.substr(space + 1));
}

void set_system(Conversation& conversation, const std::string& text) { conversation.set("system", text); }

void set_reasoning(Conversation& conversation, const std::string& level) {
  conversation.set("reasoning", level);
}

void toggle_reasoning(Conversation& conversation, const std::string&) {
  conversation.hides_reasoning = !conversation.hides_reasoning;
  fmt::print("Reasoning is now {}.\n", conversation.hides_reasoning ? "hidden" : "shown");
}

void show_reasoning(Conversation& conversation, const std::string&) {
  const harmony::Chat chat = conversation.chat();
  if (chat.messages.empty()) throw InputError("no answer yet");
  fmt::print("{}{}{}\n", dim_on(stdout), chat.messages.back().reasoning, dim_off(stdout));
}

void show_history(Conversation& conversation, const std::string&) {
  for (const harmony::ChatMessage& message : conversation.chat().messages)
    fmt::print("{}{}\n", message.role == harmony::Role::kUser ? "> " : "", message.text);
}

void read_file(Conversation& conversation, const std::string& file) {
  if (file.empty()) throw InputError("/read needs the name of a text file");
  std::string text = read_text_file(file);
  if (const auto at = first_invalid_utf8(text)) throw InputError("{}: not valid UTF-8 at byte {}", file, *at);
  text.erase(text.find_last_not_of('\n') + 1);
  const size_t num_bytes = text.size();
  conversation.attach(std::move(text));
  fmt::print("{} bytes of {} follow the next question\n", num_bytes, file);
}

void toggle_stats(Conversation& conversation, const std::string&) {
  conversation.shows_stats = !conversation.shows_stats;
  fmt::print("Speed is now {}.\n", conversation.shows_stats ? "shown" : "hidden");
}

void save_conversation(Conversation& conversation, const std::string& file) {
  if (file.empty()) throw InputError("/save needs a file name");
  const harmony::Chat chat = conversation.chat();
  write_text_file(file, harmony::to_json(harmony::to_conversation(chat)).dump(2) + "\n");
  fmt::print("{} messages written to {}\n", chat.messages.size(), file);
}

void load_conversation(Conversation& conversation, const std::string& file) {
  if (file.empty()) throw InputError("/load needs the name of a file written by /save");
  const std::string text = read_text_file(file);
  try {
    harmony::Chat chat =
        harmony::to_chat(harmony::conversation_from_json(harmony::parse_json(text, "the file")));
    const size_t num_messages = chat.messages.size();
    conversation.resume(std::move(chat));
    fmt::print("{} messages read from {}\n", num_messages, file);
  } catch (const InputError& error) {
    throw InputError("{}: {}", file, error.what());
  }
}

void end_conversation(Conversation& conversation, const std::string&) { conversation.has_ended = true; }

constexpr ChatCommand kChatCommands[]{
    {"help", "", "this list", &list_chat_commands},
    {"read", "FILE", "append the text of a file to the next question", &read_file},
    {"retry", "", "answer the last question again", &ask_again},
    {"regen", "", "the same as /retry", &ask_again},
    {"reset", "", "forget the conversation", &forget_conversation},
    {"set", "NAME VALUE", "change a setting; without VALUE: reset it; alone: list them", &change_setting},
    {"system", "TEXT", "instructions to the model; without TEXT: none", &set_system},
    {"reasoning", "LEVEL", "how much the model reasons: low, medium or high", &set_reasoning},
    {"fold", "", "hide or show the model's reasoning", &toggle_reasoning},
    {"thoughts", "", "show the reasoning of the last answer", &show_reasoning},
    {"stats", "", "show or hide token counts and speed after answers", &toggle_stats},
    {"history", "", "show the conversation so far", &show_history},
    {"save", "FILE", "write the conversation as JSON", &save_conversation},
    {"load", "FILE", "continue a saved conversation", &load_conversation},
    {"quit", "", "end the program", &end_conversation},
};

void list_chat_commands(Conversation&, const std::string&) {
  for (const ChatCommand& command : kChatCommands)
    fmt::print("  {:<18} {}\n", fmt::format("/{} {}", command.name, command.argument), command.help);
  fmt::print("  {:<18} {}\n", "\"\"\"", "begins and ends a question of several lines");
}

const ChatCommand* find_chat_command(std::string_view name) {
  for (const ChatCommand& command : kChatCommands)
    if (command.name == name) return &command;
  return nullptr;
}

}  // namespace

std::vector<ChatName> chat_names() {
  std::vector<ChatName> names;
  for (const ChatCommand& command : kChatCommands)
    names.push_back({command.name, /*takes_file=*/command.argument == "FILE"});
  return names;
}

void obey_or_ask(Conversation& conversation, const std::string& line) {
  if (!line.starts_with("/")) return conversation.ask(line);
  const size_t space = line.find_first_of(" \n");
  const std::string name = line.substr(1, space == std::string::npos ? space : space - 1);
  std::string argument = space == std::string::npos ? "" : line.substr(space + 1);
  argument.erase(argument.find_last_not_of(" \t\r\n") + 1);
  if (const ChatCommand* command = find_chat_command(name)) return command->run(conversation, argument);
  // Multi-line input that starts with '/' is a message (such as a pasted path), not a wrong command.
  if (line.find('\n') != std::string::npos) return conversation.ask(line);
  std::vector<std::string> names;
  for (const ChatCommand& command : kChatCommands) names.emplace_back(command.name);
  throw InputError("unknown command '/{}'{} /help lists the commands", name, guess(name, names, "/"));
}

}  // namespace nibble::cli
