// nibble bench serve: puts load on a server with the OpenAI API; measures latency and throughput.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/bench_serve/endpoint.h"
#include "cli/bench_serve/flags.h"
#include "cli/bench_serve/http_client.h"
#include "cli/bench_serve/plan.h"
#include "cli/bench_serve/rate_search.h"
#include "cli/bench_serve/report.h"
#include "cli/bench_serve/run_load.h"
#include "cli/bench_serve/server_facts.h"
#include "cli/bench_serve/workload.h"
#include "cli/command.h"
#include "cli/measure/coherence.h"
#include "core/errors/error.h"
#include "core/text/json.h"
#include "setup/machine/machine.h"

namespace nibble::cli {
namespace {

namespace asio = boost::asio;

constexpr const char* kBenchServeFooter{R"(
A load is a number of clients, each of which sends its next request when it has received the answer (--clients), or requests
that arrive by a Poisson process regardless of open requests (--rate), or requests at the times of a trace (--workload FILE
without either). Every load has its own requests. Without --seed, or with another one, prompts differ as well, so that a
prefix cache can reuse only --prefix-tokens, earlier turns, and equal blocks of a trace.

Prompts of completions are random token ids of the whole vocabulary, so --prompt-tokens is exact. Prompts of chats (--api chat)
are words, and the template adds tokens. The server counts prompt and output tokens. Servers that support ignore_eos answer
with the requested number of tokens; others may stop earlier. With --turns a prompt repeats the prompts and answers before it:
as token ids in completions (return_token_ids: nibble, vLLM, SGLang), as text in a chat.

A file of requests has a JSON object per line, in the form of Mooncake's traces: input_length and output_length, and optionally
timestamp (milliseconds) and hash_ids, each of which stands for a block of 512 tokens.

Times are those of the client. TTFT is from sending to the first event with a token, ITL between events with tokens, TPOT
(E2E - TTFT) / (output tokens - 1), and E2E until the answer is complete. The table has their 50th, 90th and 99th percentile.
tok/s counts prompt and output tokens; tok/s/user (interactivity) is 1 / median TPOT. An event has a token if it has text, or if
its usage has more output tokens than before (stream_options.continuous_usage_stats: nibble, vLLM, SGLang). Of servers without
such usage (llama.cpp), a token without text is seen only with the next one that has text.

TTFR and est_ppt are those of llama-benchy, whose e2e_ttft is TTFT here. TTFR (time to first response) is from sending to the
first event, with or without a token. est_ppt (estimated prompt processing time) is TTFR less a latency, which is measured three
times before the first load: the time of the list of models (--latency-mode api), or that of an answer of one token
(generation). pp tok/s is the median of (prompt tokens - cached ones) / est_ppt.

After the loads the server is asked in a chat what 17 + 25 is, because a wrong kernel can be fast. "DOUBTFUL" marks an answer
without 42, which random weights and prompts that are cut off give too.

Examples:
  nibble bench serve http://127.0.0.1:8080 --workload 1k1k --clients 1,4,16,64 \
       --requests 10x --warmup 2x
  nibble bench serve http://10.0.0.5:8000 --rate 0.5,1,2 --requests 300 \
       --prompt-tokens lognormal:1000:0.8 --output-tokens 50-400
  nibble bench serve http://127.0.0.1:8080 --slo ttft=3,tpot=0.08 --workload 8k1k
  nibble bench serve http://127.0.0.1:8080 --workload trace.jsonl
  nibble bench serve http://127.0.0.1:8080 --prefix-tokens 8192 --prompt-tokens 2048 \
       --output-tokens 32   # TTFT at depth 8192: warm-up requests fill the prefix cache
  nibble bench serve http://127.0.0.1:8080 --api chat --turns 5 --clients 16 --json
  nibble bench serve http://127.0.0.1:8080 --clients 16 \
       --extra-body '{"regex": "[a-z ]{4000}", "ignore_eos": false}')"};

std::string body_of(const Workload& workload) {
  Json body{{"model", workload.model}, {"max_tokens", 1}, {"stream", true}};
  if (workload.api == BenchApi::kChat)
    body["messages"] = {{{"role", "user"}, {"content", "hello"}}};
  else
    body["prompt"] = "hello";
  return body.dump();
}

asio::awaitable<double> time_models(HttpClient& client, const std::string& path) {
  const double sent = client.now();
  co_await client.get(path);
  co_return client.now() - sent;
}

asio::awaitable<double> time_generation(HttpClient& client, const std::string& path,
                                        const std::string& body) {
  const StreamedAnswer answer = co_await client.post(path, body);
  const TimedAnswer& times = answer.times;
  if (!times.error.empty() || !times.first_response) throw HttpFailure{times.error, times.example};
  co_return *times.first_response - times.sent;
}

// Measures the latency of a minimal request, as llama-benchy does: the mean of three requests on an open
// connection, in seconds; nullopt if a request failed. `mode`: "api" requests the list of models;
// "generation" requests an answer of one token to a prompt of one word, and its time ends with the first
// event; "none" returns 0.
std::optional<double> base_latency(const Endpoint& endpoint, const Workload& workload,
                                   const std::string& mode, double timeout_seconds) {
  if (mode == "none") return 0;
  constexpr int kNumRequests{3};
  HttpClient client(endpoint, timeout_seconds);
  std::optional<double> mean;
  const auto measure = [&]() -> asio::awaitable<void> {
    double sum = 0;
    try {
      for (int i = -1; i < kNumRequests; ++i) {  // -1 opens the connection and is not counted
        double seconds = 0;
        if (mode == "api")
          seconds = co_await time_models(client, endpoint.base + "/models");
        else
          seconds =
              co_await time_generation(client, endpoint.base + path_of(workload.api), body_of(workload));
        if (i >= 0) sum += seconds;
      }
      mean = sum / kNumRequests;
    } catch (const HttpFailure&) {  // est_ppt stays unknown
    }
  };
  asio::co_spawn(client.io(), measure(), asio::detached);
  client.io().run();
  return mean;
}

// Asks the server the question of cli/measure/coherence.h in a chat with temperature 0. On failure the result
// has a reason and no answer.
Coherence ask_server(const Endpoint& endpoint, const std::string& model, double timeout_seconds) {
  const Json body{{"model", model},
                  {"messages", {{{"role", "user"}, {"content", kCoherenceQuestion}}}},
                  {"reasoning_effort", "low"},
                  {"temperature", 0},
                  {"max_tokens", kCoherenceTokens},
                  {"stream", true}};
  Coherence coherence;
  HttpClient client(endpoint, timeout_seconds);
  const auto ask_once = [&]() -> asio::awaitable<void> {
    const StreamedAnswer answer = co_await client.post(endpoint.base + path_of(BenchApi::kChat), body.dump());
    if (answer.times.error.empty())
      coherence.answer = answer.text.content;
    else
      coherence.reason = "the request failed: " + answer.times.error;
  };
  asio::co_spawn(client.io(), ask_once(), asio::detached);
  client.io().run();
  return coherence;
}

class LoadRunner {
 public:
  LoadRunner(const Endpoint& endpoint, const Workload& workload, const Trace& trace, const LoadPlan& plan,
             std::optional<double> latency)
      : endpoint_(endpoint), workload_(workload), trace_(trace), plan_(plan), latency_(latency) {}

  // Sends the warm-up requests, then the load. Throws InputError if a warm-up request fails.
  BenchServeResult measure(const BenchLoad& load) {
    BenchServeResult result{.load = load, .summary = {}, .num_warmups = 0, .slo_share = {}};
    const int count = plan_.num_requests(load, trace_.requests.size());
    if (const int num_warmups = plan_.num_warmups(load); num_warmups > 0) {
      const bool has_pace = load.num_clients || load.rate;
      const LoadAnswers warmup = send(has_pace ? load : BenchLoad{.num_clients = 1}, num_warmups, 0);
      for (const TimedAnswer& answer : warmup.answers) check_warmup(answer);
      result.num_warmups = static_cast<int>(warmup.answers.size());
    }
    // Round num_sent_ up to whole passes over the trace, so that each load begins with the trace's first
    // request.
    if (const uint64_t size = trace_.requests.size(); size > 0)
      num_sent_ = (num_sent_ + size - 1) / size * size;
    LoadAnswers run = send(load, count, plan_.min_seconds);
    result.summary = summarise(run.answers, latency_);
    if (plan_.slo) result.slo_share = share_within(*plan_.slo, run.answers);
    if (plan_.keeps_answers) result.answers = std::move(run.answers);
    return result;
  }

 private:
  LoadAnswers send(const BenchLoad& load, int count, double min_seconds) {
    const uint64_t first = num_sent_;
    const LoadAnswers run =
        run_load(endpoint_, {.api = workload_.api,
                             .count = count,
                             .arrivals = {.num_clients = load.num_clients, .times = times_of(load, count)},
                             .min_seconds = min_seconds,
                             .timeout_seconds = plan_.timeout_seconds,
                             .conversation_of = [&](int i) {
                               return BenchConversation(workload_, first + static_cast<uint64_t>(i));
                             }});
    num_sent_ += static_cast<uint64_t>(run.num_conversations);
    return run;
  }

  std::vector<double> times_of(const BenchLoad& load, int count) const {
    if (load.rate) return poisson_arrivals(*load.rate, count, workload_.seed);
    std::vector<double> times;
    if (!load.num_clients)
      for (int i = 0; i < count; ++i) times.push_back(trace_.requests[static_cast<size_t>(i)].seconds);
    return times;
  }

  void check_warmup(const TimedAnswer& answer) const {
    if (answer.error.empty()) return;
    throw InputError("{}{}: a warm-up request failed: {}{}", endpoint_.url(), path_of(workload_.api),
                     answer.error, answer.example == answer.error ? "" : ": " + answer.example);
  }

  const Endpoint& endpoint_;
  const Workload& workload_;
  const Trace& trace_;
  const LoadPlan& plan_;
  std::optional<double> latency_;  // latency of a minimal request; nullopt: unknown
  uint64_t num_sent_{0};           // conversations sent in all loads so far; index of the next conversation
};

// Runs the loads, or the search. Calls `on_result` after each load.
BenchServeRun run_plan(LoadRunner& runner, const LoadPlan& plan,
                       const std::function<void(const BenchServeResult&)>& on_result) {
  BenchServeRun run;
  const auto measure = [&](const BenchLoad& load) {
    run.results.push_back(runner.measure(load));
    on_result(run.results.back());
  };
  for (const BenchLoad& load : plan.loads) measure(load);
  if (plan.loads.empty())
    run.bounds = highest_rate([&](double rate) {
      measure({.rate = rate});
      return run.results.back().slo_share.value_or(0) >= kHoldingShare;
    });
  return run;
}

int bench_serve(const BenchServeOptions& options, const std::string& command_line) {
  const std::string began = utc_now();
  const Endpoint endpoint = endpoint_of(options);
  const Trace trace = trace_of(options);
  const LoadPlan plan = load_plan(options, trace.has_times);
  const auto status = read_status(endpoint, options.timeout_seconds);
  Workload workload = workload_of(options, trace, status);
  if (!options.model) workload.model = first_model(endpoint, options.timeout_seconds);
  const int reported_gpus = status ? status->at("setup").at("num_devices").get<int>() : 1;
  BenchServeSetup setup{
      .record = {.date = began,
                 .command_line = command_line,
                 .machine = describe_machine(std::nullopt),
                 .kernels = {},
                 .num_warmups = 0},
      .url = endpoint.url(),
      .workload = workload,
      .workload_name = options.workload,
      .prompt_tokens = prompt_tokens_text(options),
      .output_tokens = output_tokens_text(options),
      .num_gpus = options.num_gpus.value_or(reported_gpus),
      .slo = plan.slo,
      .latency_mode = options.latency_mode,
      .latency = base_latency(endpoint, workload, options.latency_mode, options.timeout_seconds)};
  allow_open_files();

  LoadRunner runner(endpoint, workload, trace, plan, setup.latency);
  if (!options.as_json) fmt::print("{}", serve_markdown_header(setup));
  BenchServeRun run = run_plan(runner, plan, [&](const BenchServeResult& result) {
    setup.record.num_warmups += result.num_warmups;
    if (options.as_json) return;
    fmt::print("{}", serve_markdown_row(setup, result));
    std::fflush(stdout);  // shows the row now: the next load may take minutes
  });
  run.server = server_json(status, status ? read_status(endpoint, options.timeout_seconds) : std::nullopt);
  run.coherence = ask_server(endpoint, workload.model, options.timeout_seconds);
  if (options.as_json)
    fmt::print("{}", record_line(serve_json(setup, run)));
  else
    fmt::print("{}", serve_markdown_footer(setup, run));
  return kDone;
}

}  // namespace

Action define_bench_serve(CLI::App& command, Settings&) {
  const auto options = std::make_shared<BenchServeOptions>();
  add_bench_serve_flags(command, *options);
  command.footer(kBenchServeFooter);
  return [options, &command] { return bench_serve(*options, command_line(command)); };
}

}  // namespace nibble::cli
