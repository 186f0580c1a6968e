#include "cli/bench_serve/bench_serve.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cli/bench_serve/client.h"
#include "cli/bench_serve/report.h"
#include "cli/measure/number_list.h"
#include "core/error.h"
#include "setup/machine.h"

namespace nibble::cli {
namespace {

constexpr const char* kBenchServeFooter{R"(
A load is a number of clients, each of which sends its next request when it has received the answer (--clients), or requests
that arrive by a Poisson process regardless of open requests (--rate). Every load has its own requests. Without --seed, or
with another one, prompts differ as well, so that a prefix cache can reuse only --prefix-tokens.

Completion requests have token ids as prompts, and --prompt-tokens is exact; in a chat (--api chat) prompts are words, and
the template adds tokens. Prompt and output tokens are counted by the server. Servers that support ignore_eos answer with
the requested number of tokens; others may stop earlier.

Times are those of the client. TTFT: from sending to the first event with text. ITL: between events with text. TPOT:
(E2E - TTFT) / (output tokens - 1). E2E: until the answer is complete. The table has their 50th, 90th and 99th percentile.

Examples:
  nibble bench serve http://127.0.0.1:8080 --clients 1,4,16,64
  nibble bench serve http://10.0.0.5:8000 --rate 0.5,1,2 --requests 300 \
       --prompt-tokens exp:1000 --output-tokens 50-400
  nibble bench serve http://127.0.0.1:8080 --api chat --prefix-tokens 2000 --clients 16 --json
  nibble bench serve http://127.0.0.1:8080 --clients 16 \
       --extra-body '{"regex": "[a-z ]{4000}", "ignore_eos": false}')"};

constexpr int kMostClients{1 << 16};
constexpr int kMostTokens{1 << 20};

struct BenchServeOptions {
  std::string url;
  std::optional<std::string> model, api_key;
  std::string api{"completions"};
  std::vector<std::string> clients;
  std::vector<double> rates;
  std::optional<int> num_requests;
  int num_warmup{2};
  std::string prompt_tokens{"512"}, output_tokens{"128"};
  int num_prefix_tokens{0}, num_prefixes{1};
  double temperature{1};
  std::optional<uint64_t> seed;
  double timeout_seconds{600};
  std::optional<std::string> extra_body;
  bool as_json{false};
};

std::vector<BenchLoad> loads_of(const BenchServeOptions& options) {
  std::vector<BenchLoad> loads;
  for (const double rate : options.rates) loads.push_back({.rate = rate});
  if (options.clients.empty() && loads.empty()) return {{.num_clients = 1}};
  for (const int clients : read_numbers(options.clients, "--clients", 1, kMostClients))
    loads.push_back({.num_clients = clients});
  return loads;
}

int num_requests_of(const BenchLoad& load, const BenchServeOptions& options) {
  constexpr int kLeast{64}, kTurns{8};
  return options.num_requests.value_or(std::max(kLeast, kTurns * load.num_clients));
}

Endpoint endpoint_of(const BenchServeOptions& options) {
  Endpoint endpoint = read_endpoint(options.url);
  const char* variable = std::getenv("OPENAI_API_KEY");
  endpoint.api_key = options.api_key.value_or(variable ? variable : "");
  return endpoint;
}

Workload workload_of(const BenchServeOptions& options, const Endpoint& endpoint) {
  Workload workload{.api = options.api == "chat" ? BenchApi::kChat : BenchApi::kCompletions,
                    .model = options.model ? *options.model : "",
                    .prompt_tokens = read_length(options.prompt_tokens, "--prompt-tokens"),
                    .output_tokens = read_length(options.output_tokens, "--output-tokens"),
                    .num_prefix_tokens = options.num_prefix_tokens,
                    .num_prefixes = options.num_prefixes,
                    .temperature = options.temperature,
                    .seed = options.seed ? *options.seed : std::random_device()()};
  if (options.extra_body) {
    workload.extra_body =
        nlohmann::ordered_json::parse(*options.extra_body, nullptr, /*allow_exceptions=*/false);
    if (!workload.extra_body.is_object())
      throw InputError("--extra-body: expected a JSON object, such as '{{\"top_p\": 0.9}}'");
  }
  if (!options.model) workload.model = first_model(endpoint, options.timeout_seconds);
  return workload;
}

int bench_serve(const BenchServeOptions& options, const std::string& command_line) {
  const std::vector<BenchLoad> loads = loads_of(options);
  const std::string began = utc_now();
  const Endpoint endpoint = endpoint_of(options);
  const Workload workload = workload_of(options, endpoint);
  allow_open_files();

  uint64_t num_sent = 0;  // over all loads: no prompt is sent twice
  const auto run = [&](int count, const Arrivals& arrivals) {
    const uint64_t first = num_sent;
    num_sent += static_cast<uint64_t>(count);
    return run_requests(
        endpoint,
        {.api = workload.api,
         .count = count,
         .arrivals = arrivals,
         .body_of = [&](int i) { return request_body(workload, first + static_cast<uint64_t>(i)); }},
        options.timeout_seconds);
  };
  if (!options.as_json) fmt::print("{}", serve_markdown_header());
  std::vector<BenchServeResult> results;
  for (const BenchLoad& load : loads) {
    for (const TimedAnswer& answer : run(options.num_warmup, {.num_clients = 1}))
      if (!answer.error.empty())
        throw InputError("{}{}: the first request failed: {}{}", endpoint.url(), path_of(workload.api),
                         answer.error, answer.example == answer.error ? "" : ": " + answer.example);
    const int count = num_requests_of(load, options);
    const Arrivals arrivals{.num_clients = load.num_clients,
                            .times = load.num_clients > 0
                                         ? std::vector<double>()
                                         : poisson_arrivals(load.rate, count, workload.seed)};
    results.push_back({load, summarise(run(count, arrivals))});
    if (options.as_json) continue;
    fmt::print("{}", serve_markdown_row(results.back()));
    std::fflush(stdout);  // the next load may take minutes
  }
  const BenchServeSetup setup{.record = {.date = began,
                                         .command_line = command_line,
                                         .machine = describe_machine(std::nullopt),
                                         .kernels = {},
                                         .num_warmups = options.num_warmup},
                              .url = endpoint.url(),
                              .workload = workload,
                              .prompt_tokens = options.prompt_tokens,
                              .output_tokens = options.output_tokens};
  if (options.as_json)
    fmt::print("{}", record_line(serve_json(setup, results)));
  else
    fmt::print("{}", serve_markdown_footer(setup, results));
  return kDone;
}

}  // namespace

Action define_bench_serve(CLI::App& command, Settings&) {
  const auto options = std::make_shared<BenchServeOptions>();
  const auto add = [&](const char* flag, auto& value, const char* what, const char* type) {
    return command.add_option(flag, value, what)->type_name(type);
  };
  command.add_option("URL", options->url, "address of the server, such as http://127.0.0.1:8080")
      ->required()
      ->type_name("");
  add("--model", options->model, "model to request [the first one that the server lists]", "NAME");
  add("--api-key", options->api_key,
      "key to send as 'Authorization: Bearer KEY' [the variable OPENAI_API_KEY]", "KEY");
  add("--api", options->api, "endpoint: completions or chat", "NAME")
      ->check(CLI::IsMember({"completions", "chat"}))
      ->capture_default_str();
  auto* clients = add_numbers(command, "--clients", options->clients,
                              "concurrent clients, each waiting for its answer; one load per number [1]");
  add("--rate", options->rates, "requests per second instead, regardless of open requests; one load per rate",
      "R,R...")
      ->delimiter(',')
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CLI::Range(1e-3, 1e6))
      ->excludes(clients);
  add("--requests", options->num_requests, "requests per load [64, or 8 per client if more]", "N")
      ->check(CLI::Range(1, 1 << 24));
  add("--warmup", options->num_warmup, "warm-up requests before each load, not counted", "N")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  add("--prompt-tokens", options->prompt_tokens, "N; A-B: uniform; exp:N: exponential with mean N", "LENGTH")
      ->capture_default_str();
  add("--output-tokens", options->output_tokens, "the same for answers", "LENGTH")->capture_default_str();
  add("--prefix-tokens", options->num_prefix_tokens, "additional tokens of a prefix shared by all prompts",
      "N")
      ->check(CLI::Range(0, kMostTokens))
      ->capture_default_str();
  add("--prefixes", options->num_prefixes, "number of different prefixes, used equally often", "N")
      ->check(CLI::Range(1, kMostTokens))
      ->capture_default_str();
  add("--temperature", options->temperature, "sampling temperature; 0: the likeliest token", "T")
      ->check(CLI::Range(0.0, 2.0))
      ->capture_default_str();
  add("--seed", options->seed, "seed of prompts, lengths and arrivals [random]", "N");
  add("--timeout", options->timeout_seconds, "timeout of a request in seconds", "S")
      ->check(CLI::Range(0.01, 1e6))
      ->capture_default_str();
  add("--extra-body", options->extra_body, "members to add to each request or to replace in it", "JSON");
  command.add_flag("--json", options->as_json, "one JSON object instead of the table; times are in seconds");
  command.footer(kBenchServeFooter);
  return [options, &command] { return bench_serve(*options, command_line(command)); };
}

}  // namespace nibble::cli
