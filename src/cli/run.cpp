#include "cli/run.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "cli/nodes.h"
#include "cli/terminal/answer.h"
#include "cli/terminal/answer_format.h"
#include "cli/terminal/answer_printer.h"
#include "cli/terminal/new_request.h"
#include "cli/terminal/speed.h"
#include "cli/terminal/terminal.h"
#include "core/error.h"
#include "core/json.h"
#include "core/output.h"
#include "harmony/json.h"
#include "harmony/render.h"
#include "setup/capacity.h"
#include "setup/drafters.h"
#include "setup/load.h"
#include "setup/model.h"
#include "setup/resolve.h"
#include "setup/storage_formats.h"
#include "setup/tokenizer.h"

namespace nibble::cli {
namespace {

constexpr const char* kRunFooter{R"(
The answer goes to stdout; the model's reasoning (dimmed on a terminal) and, at the end, token counts and speed go to
stderr, so that a pipe gets only the answer. ctrl-C ends the answer early.

Examples:
  nibble run tiny -p "What is 17 + 25?" --temperature 0
  nibble run openai/gpt-oss-20b --reasoning high --system "Answer in French." < question.txt
  nibble run tiny --raw -p "It was a dark and" --max-tokens 40 --seed 7
  nibble run tiny -p "Add 3 and 6." --json --logprobs 3 2>/dev/null
  nibble run tiny -p "Where is Paris?" --json-schema place.json)"};

struct RunOptions {
  std::string model;
  std::optional<std::string> prompt;
  bool is_raw{false};
  bool as_json{false};
};

std::string prompt_of(const RunOptions& options) {
  if (!options.prompt && is_terminal(stdin))
    print_to(stderr, "Type the prompt; ctrl-D on a line of its own ends it.\n");
  std::string prompt = options.prompt ? *options.prompt : read_input();
  if (const auto at = first_invalid_utf8(prompt))
    throw InputError("the prompt is not valid UTF-8 at byte {} (0x{:02X}); convert it, e.g. with iconv", *at,
                     static_cast<unsigned char>(prompt[*at]));
  // A shell's pipe ends in a newline that is not part of the question; --raw keeps it.
  if (!options.is_raw && !options.prompt) prompt.erase(prompt.find_last_not_of('\n') + 1);
  if (prompt.empty()) throw InputError("the prompt is empty: give one with -p or on stdin");
  return prompt;
}

std::vector<TokenId> prompt_tokens(const RunOptions& options, const Settings& settings,
                                   const std::string& prompt, const Tokenizer& tokenizer) {
  if (options.is_raw) return tokenizer.encode(prompt, SpecialTokens::kRecognise);
  harmony::Chat chat = new_chat(settings);
  chat.messages.emplace_back().text = prompt;
  return harmony::render(harmony::to_conversation(chat), tokenizer, {}).tokens;
}

nlohmann::ordered_json logprobs_json(const Answer& answer, const Tokenizer& tokenizer) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const SampledToken& token : answer.tokens) {
    nlohmann::ordered_json row{{"token", token.token},
                               {"text", tokenizer.bytes(token.token)},
                               {"logprob", token.logprob},
                               {"top", nlohmann::ordered_json::array()}};
    for (const TokenLogprob& other : token.top)
      row["top"].push_back(
          {{"token", other.token}, {"text", tokenizer.bytes(other.token)}, {"logprob", other.logprob}});
    rows.push_back(std::move(row));
  }
  return rows;
}

void print_json(const RunOptions& options, const Settings& settings, const Answer& answer,
                const Tokenizer& tokenizer, const Speed& speed) {
  nlohmann::ordered_json json{
      {"model", options.model}, {"finish_reason", name(answer.finished.reason)}, {"answer", answer.text}};
  if (!options.is_raw) {
    json["reasoning"] = answer.reasoning;
    for (const harmony::ParsedMessage& message : answer.messages)
      json["messages"].push_back(harmony::to_json(message));
  }
  std::vector<TokenId> ids;
  for (const SampledToken& token : answer.tokens) ids.push_back(token.token);
  json["tokens"] = ids;
  if (settings.logprobs) json["logprobs"] = logprobs_json(answer, tokenizer);
  json["num_prompt_tokens"] = answer.finished.num_prompt_tokens;
  json["num_output_tokens"] = answer.finished.num_output_tokens;
  json["prefill_tokens_per_second"] = speed.prefill_tokens_per_second;
  json["decode_tokens_per_second"] = speed.decode_tokens_per_second;
  json["bytes_per_token"] = speed.bytes_per_token;
  json["num_steps"] = answer.finished.num_steps;
  if (const speculative::DraftCounts& drafts = answer.finished.drafts; drafts.num_drafts > 0) {
    json["num_draft_tokens"] = drafts.num_tokens;
    json["num_accepted_tokens"] = drafts.num_accepted;
    json["draft_acceptance"] = acceptance_by_place(drafts);
  }
  // A partial UTF-8 character in a text becomes U+FFFD. The ids in "tokens" are exact.
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

int run(const RunOptions& options, const Settings& settings) {
  if (settings.logprobs && !options.as_json) throw InputError("--logprobs needs --json");
  ResolvedSettings setup = resolve(settings);
  if (const auto code = follow_head(setup, options.model)) return *code;
  const std::string prompt = prompt_of(options);
  const Model model = open_model(options.model, setup.places);
  const Tokenizer tokenizer = open_tokenizer(model.source, setup.places);
  const Capacity capacity{context_of(model.config, setup), 1};
  open_drafters(setup, model, capacity);
  GenerationRequest request = make_request(prompt_tokens(options, settings, prompt, tokenizer), settings,
                                           model.config, tokenizer, capacity.context);
  AnswerFormat format(tokenizer);
  request.constraint = format.constraint(settings, /*is_chat=*/!options.is_raw);

  const BackendOptions room = backend_options(model.config, setup, capacity);
  const std::unique_ptr<Backend> backend = load(model, setup, room);
  load_draft_model(setup);
  Engine engine(*backend, tokenizer, engine_options(setup, room, capacity));

  CatchInterrupt interrupt;
  bool was_interrupted = false;
  AnswerPrinter printer({});
  Listener listener;
  listener.wants_to_stop = [&] { return was_interrupted |= interrupt.take(); };
  listener.on_text = [&](harmony::AnswerPart part, std::string_view text) {
    if (!options.as_json) printer.show(part, text);
  };
  const Answer answer = options.is_raw ? stream_raw(engine, request, settings.stop, listener)
                                       : stream_harmony(engine, tokenizer, request, settings.stop, listener);
  printer.finish();
  const Speed speed = speed_of(model.config, formats_of(model, setup), answer.finished);
  if (options.as_json) print_json(options, settings, answer, tokenizer, speed);
  print_to(stderr, "{}{}{}\n", dim_on(stderr), describe(answer.finished, speed), dim_off(stderr));
  return was_interrupted ? kInterrupted : kDone;
}

}  // namespace

Action define_run(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<RunOptions>();
  add_model(command, options->model);
  command.add_option("-p,--prompt", options->prompt, "the prompt; read from stdin if not given")
      ->type_name("TEXT");
  command.add_flag("--raw", options->is_raw,
                   "continue the prompt as plain text, without a chat; control tokens are recognised");
  command.add_flag("--json", options->as_json, "one JSON object at the end instead of the streamed text");
  add_settings(command, settings,
               {SettingGroup::kInstruction, SettingGroup::kDate, SettingGroup::kSampling,
                SettingGroup::kAnswer, SettingGroup::kDetail, SettingGroup::kMachine, SettingGroup::kDrafts,
                SettingGroup::kDevice, SettingGroup::kGpus, SettingGroup::kNodes, SettingGroup::kPlaces});
  command.footer(kRunFooter);
  return [options, &settings] { return run(*options, settings); };
}

}  // namespace nibble::cli
