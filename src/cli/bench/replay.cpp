// nibble bench replay: runs the same requests alternately with and without drafts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "cli/bench/bench_flags.h"
#include "cli/bench/run_requests.h"
#include "cli/measure/sample_statistics.h"
#include "cli/terminal/speed.h"
#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/files/mapped_file.h"
#include "core/text/json.h"
#include "core/text/take_until.h"
#include "harmony/chat.h"
#include "harmony/field.h"
#include "harmony/json_text.h"
#include "harmony/render.h"
#include "setup/model/model.h"
#include "setup/model/tokenizer.h"
#include "setup/plan/capacity.h"
#include "setup/plan/experts.h"
#include "setup/start/drafters.h"
#include "setup/start/load.h"
#include "setup/start/resolve.h"
#include "turn/new_request.h"

namespace nibble::cli {
namespace {

using harmony::Field;

constexpr const char* kBenchReplayFooter{R"(
Runs the requests of FILE through an engine, alternating between no drafts and the drafts of --speculate, and prints the
speed of both and which drafts were accepted. The answers must be the same. Each line of FILE is one request,
{"prompt": TEXT}, with the optional members "prediction", "temperature", "seed", "max_tokens", "reasoning" and "raw".

Examples:
  nibble bench replay tiny requests.jsonl --speculate auto
  nibble bench replay tiny requests.jsonl --speculate suffix --clients 4 --json)"};

struct ReplayOptions : BenchFlags {
  std::string file;    // JSON lines, one request per line
  int num_clients{1};  // concurrent requests
};

constexpr size_t kMaxReplayBytes{size_t{64} << 20};

// Reads a line of the file: {"prompt": TEXT, "raw": true, "prediction": TEXT, "temperature": X, "seed": N,
// "max_tokens": N, "reasoning": LEVEL}. Only "prompt" is required.
GenerationRequest read_request(const Field& line, const Settings& settings, const Config& config,
                               const Tokenizer& tokenizer, int context) {
  line.allow_only({"prompt", "raw", "prediction", "temperature", "seed", "max_tokens", "reasoning"});
  const auto number = [&](const char* key, double otherwise) {
    const auto field = line.find(key);
    if (field && !field->value().is_number()) field->refuse("a number");
    return field ? field->value().get<double>() : otherwise;
  };
  const std::string prompt = line.need_string("prompt");
  const auto raw = line.find("raw");
  std::vector<TokenId> tokens;
  if (raw && raw->boolean()) {
    tokens = tokenizer.encode(prompt, SpecialTokens::kRecognise);
  } else {
    Settings asked = settings;
    asked.reasoning = line.find_string("reasoning").value_or(settings.reasoning);
    harmony::Chat chat = new_chat(asked);
    chat.date = "2026-01-01";  // a fixed date: prompts must not depend on the day
    chat.messages.emplace_back().text = prompt;
    tokens = harmony::render(harmony::to_conversation(chat), tokenizer, {}).tokens;
  }
  GenerationRequest request = make_request(std::move(tokens), settings, config, tokenizer, context);
  request.sample.temperature = static_cast<float>(number("temperature", 0));
  request.sample.seed = static_cast<uint64_t>(number("seed", 1));
  request.stop.max_tokens = static_cast<int>(number("max_tokens", 256));
  if (const auto predicted = line.find_string("prediction"))
    request.prediction = std::make_shared<speculative::Prediction>(
        speculative::Prediction{tokenizer.encode("<|channel|>final<|message|>", SpecialTokens::kRecognise),
                                tokenizer.encode(*predicted, SpecialTokens::kOrdinary)});
  return request;
}

std::vector<GenerationRequest> read_requests(const std::string& file, const Settings& settings,
                                             const Config& config, const Tokenizer& tokenizer, int context) {
  const std::string text = read_text_file(file, kMaxReplayBytes);
  std::vector<GenerationRequest> requests;
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    const std::string_view line = take_until(rest, '\n');
    if (line.empty()) continue;
    const std::string place = fmt::format("{}: line {}", file, number);
    const Json json = harmony::parse_json(line, place);
    requests.push_back(read_request(Field(json, place), settings, config, tokenizer, context));
  }
  if (requests.empty()) throw InputError("{}: contains no request", file);
  return requests;
}

struct Way {
  std::string name;
  EngineOptions options;
  std::vector<double> tokens_per_second{};
  RequestsRun last{};
};

// Returns the median over repetitions of the ratio of the speeds `on` / `off`. A repetition runs both ways
// one after another, so that other load on the machine slows both.
double ratio_of(const Way& on, const Way& off) {
  std::vector<double> ratios;
  for (size_t n = 0; n < on.tokens_per_second.size(); ++n)
    ratios.push_back(on.tokens_per_second[n] / off.tokens_per_second[n]);
  return statistics_of(ratios).median;
}

Json to_json(const Way& way) {
  const SampleStatistics speed = statistics_of(way.tokens_per_second);
  return {
      {"speculate", way.name},
      {"tokens_per_second",
       {{"median", speed.median},
        {"standard_deviation", speed.standard_deviation},
        {"samples", way.tokens_per_second}}},
      {"tokens_per_step", static_cast<double>(way.last.num_tokens) / static_cast<double>(way.last.num_steps)},
      {"num_drafts", way.last.drafts.num_drafts},
      {"num_draft_tokens", way.last.drafts.num_tokens},
      {"num_accepted_tokens", way.last.drafts.num_accepted},
      {"acceptance_by_place", acceptance_by_place(way.last.drafts)}};
}

std::string table_of(const Way& off, const Way& on) {
  std::string table =
      "| --speculate | tok/s | vs. off | tokens per step | drafted | accepted | by position |\n";
  table += "| --- | ---: | ---: | ---: | ---: | ---: | --- |\n";
  for (const Way* way : {&off, &on}) {
    const double speed = statistics_of(way->tokens_per_second).median;
    const speculative::DraftCounts& drafts = way->last.drafts;
    table += fmt::format("| {} | {:.1f} | {:.3f} | {:.2f} | {} | {} | {:.2f} |\n", way->name, speed,
                         ratio_of(*way, off),
                         static_cast<double>(way->last.num_tokens) / static_cast<double>(way->last.num_steps),
                         drafts.num_tokens, drafts.num_accepted, fmt::join(acceptance_by_place(drafts), " "));
  }
  return table + fmt::format("\n{} answers, {} tokens: the same with and without drafts\n",
                             off.last.answers.size(), off.last.num_tokens);
}

RunOutput replay(const ReplayOptions& options, const Settings& settings, const std::string& command_line) {
  const std::string began = utc_now();
  ResolvedSettings setup = resolve(settings);
  if (setup.speculation.drafters.empty())
    throw InputError("bench replay compares drafting with no drafting: choose a method with --speculate");
  const Model model = open_model_for(options.model, setup);
  const Tokenizer tokenizer = open_tokenizer(model.source, setup.places);
  const Capacity capacity{context_of(model.config, setup), options.num_clients};
  open_drafters(setup, model, capacity);
  const std::vector<GenerationRequest> requests =
      read_requests(options.file, settings, model.config, tokenizer, capacity.context);
  const BackendOptions room = backend_options(model.config, setup, capacity);
  const std::unique_ptr<Backend> backend = load(model, setup, room);
  load_draft_model(setup);

  Way off{.name = "off", .options = engine_options(setup, room, capacity)}, on = off;
  off.options.speculation = {};
  on.name = settings.speculate.value_or(settings.speculative_config ? "config" : "auto");
  for (int n = 0; n < options.num_warmups + options.num_repetitions; ++n) {
    for (Way* way : {&off, &on}) {
      // A new engine has neither cached prefixes nor drafts learned from earlier requests.
      Engine engine(*backend, tokenizer, way->options);
      way->last = run_requests(engine, requests, options.num_clients);
      const double seconds = options.num_clients == 1 ? way->last.decode_seconds : way->last.seconds;
      if (n >= options.num_warmups)
        way->tokens_per_second.push_back(static_cast<double>(way->last.num_tokens) / seconds);
    }
    NIBBLE_CHECK(on.last.answers == off.last.answers, "drafts have changed an answer");
  }
  Json record = to_json(record_of_run(began, command_line, *setup.backend, *backend, options.num_warmups));
  record["model"] = model.source.name;
  record["num_clients"] = options.num_clients;
  record["num_answers"] = requests.size();
  record["num_tokens"] = off.last.num_tokens;
  record["ways"] = {to_json(off), to_json(on)};
  record["ratio"] = ratio_of(on, off);
  return {table_of(off, on), record_line(record)};
}

}  // namespace

Action define_bench_replay(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<ReplayOptions>();
  add_model(command, options->model);
  add_value(command, "FILE", "", options->file, "requests, one JSON object per line")->required();
  add_value(command, "--clients", "N", options->num_clients, "concurrent requests")
      ->check(CLI::Range(1, kMaxBenchClients))
      ->capture_default_str();
  add_bench_flags(command, settings, *options, {SettingGroup::kDrafts});
  command.footer(kBenchReplayFooter);
  return [options, &settings, &command] { return print_measurement(*options, settings, command, &replay); };
}

}  // namespace nibble::cli
