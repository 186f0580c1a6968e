// nibble tokenize: turns text into token ids and back.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/terminal/json_lines.h"
#include "cli/terminal/terminal.h"
#include "core/console/output.h"
#include "core/errors/error.h"
#include "core/text/json.h"
#include "setup/model/tokenizer.h"

namespace nibble::cli {
namespace {

constexpr const char* kTokenizeFooter{R"(
Prints the ids on stdout and the counts on stderr. With --jsonl each line {"text": ...} becomes {"ids": [...]} and each
line {"ids": [...]} becomes {"text": ...}; bytes that are not a valid character become U+FFFD. Any other line becomes
{"error": "..."}; the following lines are still processed, and the exit code is 2.

Examples:
  echo -n "Hello, world" | nibble tokenize tiny
  echo '{"text": "Hello"}' | nibble tokenize o200k_base.tiktoken --jsonl
  echo '{"ids": [39, 72]}' | nibble tokenize tiny --jsonl)"};

struct TokenizeOptions {
  std::string vocabulary;
  bool as_json_lines{false};
  bool recognise_special{false};
};

Json convert_line(const Json& line, const Tokenizer& tokenizer, SpecialTokens special) {
  if (line.contains("text") && line["text"].is_string())
    return {{"ids", tokenizer.encode(line["text"].get_ref<const std::string&>(), special)}};
  if (line.contains("ids") && line["ids"].is_array())
    return {{"text", tokenizer.decode(token_ids(line["ids"], tokenizer))}};
  throw InputError("expected {{\"text\": ...}} or {{\"ids\": [...]}}");
}

int tokenize(const TokenizeOptions& options, const Settings& settings) {
  const Places places = resolve_places(settings);
  const Tokenizer tokenizer = open_tokenizer(find_model(options.vocabulary, places), places);
  const SpecialTokens special =
      options.recognise_special ? SpecialTokens::kRecognise : SpecialTokens::kOrdinary;
  if (options.as_json_lines) {
    answer_json_lines([&](const Json& line) { return convert_line(line, tokenizer, special); });
    return kDone;
  }
  const std::string text = read_input();
  const std::vector<TokenId> ids = tokenizer.encode(text, special);
  fmt::print("{}\n", fmt::join(ids, " "));
  print_to(stderr, "{} bytes, {} tokens, {:.2f} bytes per token\n", text.size(), ids.size(),
           ids.empty() ? 0.0 : static_cast<double>(text.size()) / static_cast<double>(ids.size()));
  return kDone;
}

}  // namespace

Action define_tokenize(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<TokenizeOptions>();
  command
      .add_option("MODEL|VOCABULARY", options->vocabulary, "a model, a tokenizer.json or a .tiktoken file")
      ->required();
  command.add_flag("--jsonl", options->as_json_lines, "one JSON object per line, in and out");
  command.add_flag("--special", options->recognise_special,
                   "recognise control tokens such as <|start|> in the text");
  add_settings(command, settings, {SettingGroup::kPlaces});
  command.footer(kTokenizeFooter);
  return [options, &settings] { return tokenize(*options, settings); };
}

}  // namespace nibble::cli
