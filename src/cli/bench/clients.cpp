#include "cli/bench/clients.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "cli/bench/run_requests.h"
#include "cli/bench_serve/latency.h"
#include "cli/measure/sample_statistics.h"
#include "cli/measure/speed_tests.h"
#include "core/text/json.h"
#include "setup/model/model.h"
#include "setup/model/tokenizer.h"
#include "setup/plan/capacity.h"
#include "setup/plan/experts.h"
#include "setup/start/drafters.h"
#include "setup/start/load.h"
#include "setup/start/resolve.h"

namespace nibble::cli {
namespace {

constexpr const char* kBenchClientsFooter{R"(
Runs an engine under the load of N clients, without HTTP. Each client sends 4 requests, one after another. A request has a
prompt of -p random tokens and an answer of -n. The difference from bench serve with the same lengths is the cost of HTTP.
"TTFT" is the median time from a request's submission to its first token. On a GPU the table also shows how long the GPU was
idle between two decode steps, by its own clock.

Examples:
  nibble bench clients synthetic:gpt-oss-120b --tokenizer bytes --clients 1,16,64 -p 1024 -n 256
  nibble bench clients tiny --clients 4 -p 64 -n 64 --json)"};

struct ClientsLoad {
  int num_clients;
  std::vector<double> tokens_per_second{};
  // Mean time between two tokens of an answer; one element per repetition.
  std::vector<double> seconds_per_token{};
  std::vector<double> first_token_seconds{};  // [timed request]: time from submission to first token
  std::vector<double> idle_seconds{};         // idle time of the device before each timed step
};

// Makes random prompts that all differ, also between repetitions, so that the prefix cache never hits.
std::vector<GenerationRequest> random_requests(const ClientsOptions& options, int vocab, int count,
                                               int first_index) {
  std::vector<GenerationRequest> requests(static_cast<size_t>(count));
  for (int n = 0; n < count; ++n) {
    GenerationRequest& request = requests[static_cast<size_t>(n)];
    const int64_t first = int64_t{first_index + n} * options.num_prompt_tokens % (int64_t{1} << 30);
    request.prompt = tokens_at(static_cast<int>(first), options.num_prompt_tokens, vocab);
    request.sample.temperature = 1;
    request.sample.seed = static_cast<uint64_t>(first_index + n);
    request.stop.max_tokens = options.num_output_tokens;
  }
  return requests;
}

// Formats the table. The table has a column for idle time if the device reports idle time.
std::string table_of(const ClientsOptions& options, const std::vector<ClientsLoad>& loads) {
  std::string table = fmt::format("Prompts of {} tokens, answers of {}, {} requests per client.\n\n",
                                  options.num_prompt_tokens, options.num_output_tokens, kRequestsOfClient);
  const bool has_idle =
      std::ranges::any_of(loads, [](const auto& load) { return !load.idle_seconds.empty(); });
  table += "| clients | output tok/s |      ± |   TTFT ms | ms between tokens |";
  table += has_idle ? " us idle between steps, p50 / p99 |\n" : "\n";
  table += "| ------: | -----------: | -----: | --------: | ----------------: |";
  table += has_idle ? " -------------------------------: |\n" : "\n";
  for (const ClientsLoad& load : loads) {
    const SampleStatistics speed = statistics_of(load.tokens_per_second);
    table += fmt::format("| {:7} | {:12.1f} | {:6.1f} | {:9.1f} | {:17.2f} |", load.num_clients, speed.median,
                         speed.standard_deviation, 1e3 * statistics_of(load.first_token_seconds).median,
                         1e3 * statistics_of(load.seconds_per_token).median);
    const auto idle = percentiles_of(load.idle_seconds);
    if (has_idle)
      table += fmt::format(" {:>32} |",
                           idle ? fmt::format("{:.1f} / {:.1f}", 1e6 * idle->p50, 1e6 * idle->p99) : "-");
    table += '\n';
  }
  return table;
}

Json idle_json(const ClientsLoad& load) {
  const auto idle = percentiles_of(load.idle_seconds);
  if (!idle) return nullptr;
  return {{"num_steps", load.idle_seconds.size()}, {"p50", idle->p50}, {"p99", idle->p99}};
}

}  // namespace

RunOutput bench_clients(const ClientsOptions& options, const Settings& settings,
                        const std::string& command_line) {
  const std::string began = utc_now();
  ResolvedSettings setup = resolve(settings);
  const Model model = open_model_for(options.model, setup);
  const Tokenizer tokenizer = open_tokenizer(model.source, setup.places);
  const BenchTest test{.kind = BenchKind::kDecode,
                       .num_tokens = options.num_output_tokens,
                       .depth = options.num_prompt_tokens};
  const Capacity capacity{test.depth + test.num_tokens, *std::ranges::max_element(options.num_clients)};
  open_drafters(setup, model, capacity);
  const BackendOptions room = room_for({&test, 1}, model.config, setup, capacity.num_sequences);
  const std::unique_ptr<Backend> backend = load(model, setup, room);
  load_draft_model(setup);

  std::vector<ClientsLoad> loads;
  for (const int num_clients : options.num_clients) loads.push_back({num_clients});
  int num_requests = 0;
  for (int n = 0; n < options.num_warmups + options.num_repetitions; ++n)
    for (ClientsLoad& load : loads) {
      const int count = kRequestsOfClient * load.num_clients;
      const auto requests = random_requests(options, model.config.vocab, count, num_requests);
      num_requests += count;
      EngineOptions of_engine = engine_options(setup, room, capacity);
      of_engine.on_step = [&load, is_timed = n >= options.num_warmups](const StepReport& report) {
        if (is_timed && report.device_idle_seconds) load.idle_seconds.push_back(*report.device_idle_seconds);
      };
      Engine engine(*backend, tokenizer, of_engine);
      const RequestsRun run = run_requests(engine, requests, load.num_clients);
      if (n < options.num_warmups) continue;
      load.tokens_per_second.push_back(static_cast<double>(run.num_tokens) / run.seconds);
      load.first_token_seconds.insert(load.first_token_seconds.end(), run.first_token_seconds.begin(),
                                      run.first_token_seconds.end());
      load.seconds_per_token.push_back(run.decode_seconds /
                                       static_cast<double>(run.num_tokens - requests.size()));
    }
  Json record = to_json(record_of_run(began, command_line, *setup.backend, *backend, options.num_warmups));
  record["model"] = model.source.name;
  if (!options.preset_run.empty()) record["preset_run"] = options.preset_run;
  record["num_prompt_tokens"] = options.num_prompt_tokens;
  record["num_output_tokens"] = options.num_output_tokens;
  record["requests_of_client"] = kRequestsOfClient;
  for (const ClientsLoad& load : loads)
    record["loads"].push_back({{"num_clients", load.num_clients},
                               {"tokens_per_second", load.tokens_per_second},
                               {"first_token_seconds", load.first_token_seconds},
                               {"seconds_per_token", load.seconds_per_token},
                               {"device_idle_seconds", idle_json(load)}});
  return {table_of(options, loads), record_line(record)};
}

Action define_bench_clients(CLI::App& command, Settings& settings) {
  struct Flags : ClientsOptions {
    std::vector<std::string> client_counts{"1"};
  };
  const auto flags = std::make_shared<Flags>();
  add_model(command, flags->model);
  add_numbers(command, "--clients", flags->client_counts, "numbers of concurrent clients, one load for each");
  add_value(command, "-p,--prompt-tokens", "N", flags->num_prompt_tokens, "tokens of each prompt")
      ->check(CLI::Range(1, kMaxBenchTokens))
      ->capture_default_str();
  add_value(command, "-n,--output-tokens", "N", flags->num_output_tokens, "tokens of each answer")
      ->check(CLI::Range(2, kMaxBenchTokens))
      ->capture_default_str();
  add_bench_flags(command, settings, *flags, {SettingGroup::kDrafts});
  command.footer(kBenchClientsFooter);
  return [flags, &settings, &command] {
    flags->num_clients = read_numbers(flags->client_counts, "--clients", 1, kMaxBenchClients);
    return print_measurement(*flags, settings, command, &bench_clients);
  };
}

}  // namespace nibble::cli
