#include "cli/bench/clients.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "cli/bench/run_requests.h"
#include "cli/measure/sample_statistics.h"
#include "cli/measure/speed_tests.h"
#include "setup/load.h"
#include "setup/speculation.h"

namespace nibble::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRequestsOfClient{4};  // one behind the other

struct ClientsLoad {
  int num_clients;
  std::vector<double> tokens_per_second{};
  std::vector<double> seconds_per_token{};  // of one answer, mean over all
};

// Every request is one of its own, in each repetition: a prefix cache knows nothing of any.
std::vector<GenerationRequest> random_requests(const ClientsOptions& options, int vocab, int count,
                                               int first_index) {
  std::vector<GenerationRequest> requests(static_cast<size_t>(count));
  for (int n = 0; n < count; ++n) {
    GenerationRequest& request = requests[static_cast<size_t>(n)];
    // Positions of random tokens are counted in 31 bits.
    const int64_t first = int64_t{first_index + n} * options.num_prompt_tokens % (int64_t{1} << 30);
    request.prompt = tokens_at(static_cast<int>(first), options.num_prompt_tokens, vocab);
    request.sample.temperature = 1;
    request.sample.seed = static_cast<uint64_t>(first_index + n);
    request.stop.max_tokens = options.num_output_tokens;
  }
  return requests;
}

std::string table_of(const ClientsOptions& options, const std::vector<ClientsLoad>& loads) {
  std::string table = fmt::format("Prompts of {} tokens, answers of {}, {} for each client.\n\n",
                                  options.num_prompt_tokens, options.num_output_tokens, kRequestsOfClient);
  table += "| clients | output tok/s |      ± | ms between tokens |\n";
  table += "| ------: | -----------: | -----: | ----------------: |\n";
  for (const ClientsLoad& load : loads) {
    const SampleStatistics speed = statistics_of(load.tokens_per_second);
    table += fmt::format("| {:7} | {:12.1f} | {:6.1f} | {:17.2f} |\n", load.num_clients, speed.median,
                         speed.standard_deviation, 1e3 * statistics_of(load.seconds_per_token).median);
  }
  return table;
}

}  // namespace

RunOutput bench_clients(const ClientsOptions& options, const Settings& settings,
                        const std::string& command_line) {
  const std::string began = utc_now();
  ResolvedSettings setup = resolve(settings);
  const Model model = open_model(options.model, setup.places);
  const Tokenizer tokenizer = open_tokenizer(model.source, setup.places);
  const BenchTest test{.kind = BenchKind::kDecode,
                       .num_tokens = options.num_output_tokens,
                       .depth = options.num_prompt_tokens};
  const Capacity capacity{test.depth + test.num_tokens,
                          *std::max_element(options.num_clients.begin(), options.num_clients.end())};
  open_drafters(setup, model, capacity);
  const BackendOptions room = room_for({&test, 1}, model.config, setup, capacity.num_sequences);
  const std::unique_ptr<Backend> backend = load(model, setup, room);
  load_draft_model(setup);

  std::vector<ClientsLoad> loads;
  for (const int num_clients : options.num_clients) loads.push_back({num_clients});
  int num_requests = 0;
  for (int n = 0; n < kNumWarmups + options.num_repetitions; ++n)
    for (ClientsLoad& load : loads) {
      const int count = kRequestsOfClient * load.num_clients;
      const auto requests = random_requests(options, model.config.vocab, count, num_requests);
      num_requests += count;
      Engine engine(*backend, tokenizer, engine_options(setup, room, capacity));
      const RequestsRun run = run_requests(engine, requests, load.num_clients);
      if (n < kNumWarmups) continue;
      load.tokens_per_second.push_back(static_cast<double>(run.num_tokens) / run.seconds);
      load.seconds_per_token.push_back(run.decode_seconds /
                                       static_cast<double>(run.num_tokens - requests.size()));
    }
  Json record = to_json(record_of_run(began, command_line, *setup.backend, *backend, kNumWarmups));
  record["model"] = model.source.name;
  record["num_prompt_tokens"] = options.num_prompt_tokens;
  record["num_output_tokens"] = options.num_output_tokens;
  record["requests_of_client"] = kRequestsOfClient;
  for (const ClientsLoad& load : loads)
    record["loads"].push_back({{"num_clients", load.num_clients},
                               {"tokens_per_second", load.tokens_per_second},
                               {"seconds_per_token", load.seconds_per_token}});
  return {table_of(options, loads), record_line(record)};
}

}  // namespace nibble::cli
