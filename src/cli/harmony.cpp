// nibble harmony: turns a conversation into text and token ids, and token ids into messages.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "cli/command.h"
#include "cli/terminal/json_lines.h"
#include "cli/terminal/terminal.h"
#include "core/errors/error.h"
#include "core/text/json.h"
#include "harmony/json.h"
#include "harmony/parse.h"
#include "harmony/render.h"
#include "setup/model/tokenizer.h"

namespace nibble::cli {
namespace {

constexpr const char* kRenderFooter{R"(
Reads a conversation as JSON from stdin, in the form of the official library: {"messages": [{"role": "user",
"content": "Hi"}, ...]}. Prints the text on stdout and the ids on a second line; with --jsonl each line of stdin is a
conversation and becomes {"text": ..., "tokens": [...]}. An invalid line becomes {"error": "..."}; the exit code is then 2.

Example:
  echo '{"messages": [{"role": "user", "content": "Hi"}]}' | nibble harmony render tiny)"};

constexpr const char* kParseFooter{R"(
Reads lines {"tokens": [...], "role": "assistant"} from stdin and prints {"messages": [...]} for each. With a role the
tokens are a completion, whose prompt already gave the role; without one they are a whole conversation. "repairs" describes
how a malformed message was repaired; a header that is cut off at the end is printed as "unfinished_header". An invalid line becomes {"error": "..."}; the exit code is then 2.

Example:
  echo '{"tokens": [4071, 462, 4074, 39, 4068], "role": "assistant"}' | nibble harmony parse tiny)"};

struct RenderFlags {
  std::string vocabulary;
  std::string drop_analysis{"last-final"};
  bool no_generation_prompt{false}, is_training{false}, as_json_lines{false};
};

harmony::RenderOptions render_options(const RenderFlags& flags) {
  using enum harmony::DropAnalysis;
  constexpr std::pair<const char*, harmony::DropAnalysis> kRules[]{
      {"none", kNone}, {"first-final", kBeforeFirstFinal}, {"last-final", kBeforeLastFinal}};
  for (const auto& [name, rule] : kRules)
    if (flags.drop_analysis == name) return {rule, !flags.no_generation_prompt, flags.is_training};
  throw InputError("--drop-analysis '{}': expected one of none, first-final, last-final",
                   flags.drop_analysis);
}

int render(const RenderFlags& flags, const Settings& settings) {
  const harmony::RenderOptions options = render_options(flags);
  const Places places = resolve_places(settings);
  const Tokenizer tokenizer = open_tokenizer(find_model(flags.vocabulary, places), places);
  if (flags.as_json_lines) {
    answer_json_lines([&](const Json& line) -> Json {
      const harmony::Rendered rendered =
          harmony::render(harmony::conversation_from_json(line), tokenizer, options);
      return {{"text", rendered.text}, {"tokens", rendered.tokens}};
    });
    return kDone;
  }
  const std::string input = read_input();
  const harmony::Rendered rendered = harmony::render(
      harmony::conversation_from_json(harmony::parse_json(input, "stdin")), tokenizer, options);
  fmt::print("{}\n{}\n", rendered.text, fmt::join(rendered.tokens, " "));
  return kDone;
}

std::optional<harmony::Role> role_of(const Json& line) {
  if (!line.contains("role") || line["role"].is_null()) return std::nullopt;
  const std::string text = line["role"].get<std::string>();
  if (const std::optional<harmony::Role> role = harmony::role_of(text)) return role;
  throw InputError("role '{}': expected one of system, developer, user, assistant, tool", text);
}

int parse(const std::string& vocabulary, const Settings& settings) {
  const Places places = resolve_places(settings);
  const Tokenizer tokenizer = open_tokenizer(find_model(vocabulary, places), places);
  answer_json_lines([&](const Json& line) -> Json {
    harmony::Parser parser(tokenizer, role_of(line));
    for (const TokenId id : token_ids(line.at("tokens"), tokenizer)) parser.push(id);
    parser.finish();
    Json messages = Json::array();
    for (const harmony::ParsedMessage& message : parser.messages())
      messages.push_back(harmony::to_json(message));
    Json parsed{{"messages", messages}};
    if (!parser.unfinished_header().empty()) parsed["unfinished_header"] = parser.unfinished_header();
    return parsed;
  });
  return kDone;
}

}  // namespace

Action define_harmony(CLI::App& command, Settings& settings) {
  command.require_subcommand(1);
  const auto flags = std::make_shared<RenderFlags>();
  const auto chosen = std::make_shared<Action>();
  constexpr const char* kVocabularyHelp{"a model, a tokenizer.json or a .tiktoken file"};

  CLI::App* rendering = command.add_subcommand("render", "convert a conversation to text and token ids");
  rendering->add_option("MODEL|VOCABULARY", flags->vocabulary, kVocabularyHelp)->required();
  rendering
      ->add_option("--drop-analysis", flags->drop_analysis,
                   "leave out the reasoning of finished turns: none, first-final (before the first final "
                   "message, as the official library does) or last-final [last-final]")
      ->type_name("RULE");
  rendering->add_flag("--no-generation-prompt", flags->no_generation_prompt,
                      "do not append <|start|>assistant");
  rendering->add_flag("--training", flags->is_training,
                      "end the last message with <|return|> if it is a final one");
  rendering->add_flag("--jsonl", flags->as_json_lines, "one conversation per line");
  add_settings(*rendering, settings, {SettingGroup::kPlaces});
  rendering->footer(kRenderFooter);
  rendering->callback([=, &settings] { *chosen = [=, &settings] { return render(*flags, settings); }; });

  CLI::App* parsing = command.add_subcommand("parse", "convert token ids to messages, one line each");
  parsing->add_option("MODEL|VOCABULARY", flags->vocabulary, kVocabularyHelp)->required();
  add_settings(*parsing, settings, {SettingGroup::kPlaces});
  parsing->footer(kParseFooter);
  parsing->callback(
      [=, &settings] { *chosen = [=, &settings] { return parse(flags->vocabulary, settings); }; });
  return [chosen] { return (*chosen)(); };
}

}  // namespace nibble::cli
