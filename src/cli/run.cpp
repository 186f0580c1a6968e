// nibble run: answers a single prompt.
#include <cstdlib>
#include <memory>

#include "cli/command.h"
#include "cli/nodes.h"
#include "cli/options.h"
#include "cli/terminal/answer.h"
#include "cli/terminal/answer_printer.h"
#include "cli/terminal/prompt.h"
#include "cli/terminal/prompt_spinner.h"
#include "cli/terminal/speed.h"
#include "cli/terminal/terminal.h"
#include "core/console/output.h"
#include "core/errors/error.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "harmony/json.h"
#include "harmony/render.h"
#include "setup/model/model.h"
#include "setup/model/template_notice.h"
#include "setup/model/tokenizer.h"
#include "setup/plan/capacity.h"
#include "setup/plan/experts.h"
#include "setup/plan/storage_formats.h"
#include "setup/start/drafters.h"
#include "setup/start/load.h"
#include "setup/start/resolve.h"
#include "turn/answer_format.h"
#include "turn/new_request.h"

namespace nibble::cli {
namespace {

constexpr const char* kRunFooter{R"(
The answer goes to stdout; the model's reasoning (dimmed on a terminal) and, with --stats, token counts and speed go to
stderr, so that a pipe gets only the answer. ctrl-C ends the answer early.

The prompt is the text of -p, then the files of -f, then what is piped to stdin, with a blank line between them. In a
script whose stdin is something else, add </dev/null.

Examples:
  nibble run tiny -p "What is 17 + 25?" --temperature 0
  nibble run openai/gpt-oss-20b --reasoning high --system "Answer in French." < question.txt
  git diff | nibble run tiny -p "Write a commit message for this change:"
  nibble run openai/gpt-oss-20b -p "Do these agree?" -f a.txt -f b.txt
  nibble run tiny --raw -p "It was a dark and" --max-tokens 40 --seed 7
  nibble run tiny -p "Add 3 and 6." --json --logprobs 3 2>/dev/null
  nibble run tiny -p "Where is Paris?" --json-schema place.json)"};

struct RunOptions {
  std::string model;
  PromptSources prompt;
  bool is_raw{false};
  bool as_json{false};
  bool shows_stats{false};
};

std::vector<TokenId> prompt_tokens(const RunOptions& options, const Settings& settings,
                                   const std::string& prompt, const Tokenizer& tokenizer) {
  if (options.is_raw) return tokenizer.encode(prompt, SpecialTokens::kRecognise);
  harmony::Chat chat = new_chat(settings);
  chat.messages.emplace_back().text = prompt;
  return harmony::render(harmony::to_conversation(chat), tokenizer, {}).tokens;
}

Json logprobs_json(const Answer& answer, const Tokenizer& tokenizer) {
  Json rows = Json::array();
  for (const SampledToken& token : answer.tokens) {
    Json row{{"token", token.token},
             {"text", tokenizer.bytes(token.token)},
             {"logprob", token.logprob},
             {"top", Json::array()}};
    for (const TokenLogprob& other : token.top)
      row["top"].push_back(
          {{"token", other.token}, {"text", tokenizer.bytes(other.token)}, {"logprob", other.logprob}});
    rows.push_back(std::move(row));
  }
  return rows;
}

void print_json(const RunOptions& options, const Settings& settings, const Answer& answer,
                const Tokenizer& tokenizer, const Speed& speed) {
  Json json{
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
  fmt::print("{}\n", json_text(json, JsonForm::kIndented));
}

int run(const RunOptions& options, const Settings& settings) {
  if (settings.logprobs && !options.as_json) throw InputError("--logprobs needs --json");
  ResolvedSettings setup = resolve(settings);
  if (const auto code = follow_head(setup, options.model)) return *code;
  const std::string prompt = read_prompt(options.prompt, options.is_raw);
  const Model model = open_model_for(options.model, setup);
  if (!options.is_raw) report_template(model.source);
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
  PromptSpinner spinner(engine, static_cast<int>(request.prompt.size()), stderr);
  Listener listener;
  listener.on_wait = [&] { spinner.draw(); };
  listener.wants_to_stop = [&] { return was_interrupted |= interrupt.take(); };
  listener.on_text = [&](harmony::AnswerPart part, std::string_view text) {
    spinner.hide();
    if (!options.as_json) printer.show(part, text);
  };
  const Answer answer = options.is_raw ? stream_raw(engine, request, settings.stop, listener)
                                       : stream_harmony(engine, tokenizer, request, settings.stop, listener);
  spinner.hide();
  printer.finish();
  const Speed speed = speed_of(model.config, formats_of(model, setup), answer.finished);
  if (options.as_json) print_json(options, settings, answer, tokenizer, speed);
  const std::string end = options.shows_stats && !answer.is_abandoned ? describe(answer.finished, speed)
                                                                      : describe_cut(answer.finished);
  if (!end.empty()) print_to(stderr, "{}{}{}\n", dim_on(stderr), end, dim_off(stderr));
  // Exit at once: destructors would wait for the current step, which may take seconds and whose result is not
  // used. Not with --nodes: the other nodes must see an orderly end.
  if (answer.is_abandoned && !setup.nodes) {
    flush(stdout);
    std::_Exit(kInterrupted);
  }
  return was_interrupted ? kInterrupted : kDone;
}

}  // namespace

Action define_run(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<RunOptions>();
  add_model(command, options->model);
  add_value(command, "-p,--prompt", "TEXT", options->prompt.text,
            "the prompt; what is piped to stdin follows it");
  take_all(add_value(command, "-f,--file", "FILE", options->prompt.files,
                     "append the text of FILE; may be given several times"));
  command.add_flag("--raw", options->is_raw,
                   "continue the prompt as plain text, without a chat; control tokens are recognised");
  command.add_flag("--json", options->as_json, "one JSON object at the end instead of the streamed text");
  command.add_flag("--stats", options->shows_stats, "print token counts and speed after the answer");
  add_settings(command, settings,
               {SettingGroup::kInstruction, SettingGroup::kDate, SettingGroup::kSampling,
                SettingGroup::kAnswer, SettingGroup::kDetail, SettingGroup::kMachine, SettingGroup::kDrafts,
                SettingGroup::kDevice, SettingGroup::kGpus, SettingGroup::kNodes, SettingGroup::kPlaces});
  command.footer(kRunFooter);
  return [options, &settings] { return run(*options, settings); };
}

}  // namespace nibble::cli
