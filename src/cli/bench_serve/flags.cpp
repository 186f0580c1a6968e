#include "cli/bench_serve/flags.h"

#include <CLI/CLI.hpp>

#include "cli/bench_serve/lengths.h"
#include "cli/measure/number_list.h"

namespace nibble::cli {
namespace {

template <typename Value>
CLI::Option* add_serve_option(CLI::App& command, const char* flag, Value& value, const char* what,
                              const char* type) {
  return command.add_option(flag, value, what)->type_name(type);
}

void add_server_flags(CLI::App& command, BenchServeOptions& options) {
  command.add_option("URL", options.url, "address of the server, such as http://127.0.0.1:8080")
      ->required()
      ->type_name("");
  add_serve_option(command, "--model", options.model,
                   "model to request [the first one that the server lists]", "NAME");
  add_serve_option(
      command, "--api-key", options.api_key,
      "key to send as 'Authorization: Bearer KEY' [the variable NIBBLE_API_KEY\nor OPENAI_API_KEY]", "KEY");
  add_serve_option(command, "--api", options.api, "endpoint: completions or chat", "NAME")
      ->check(CLI::IsMember({"completions", "chat"}))
      ->capture_default_str();
  add_serve_option(command, "--num-gpus", options.num_gpus,
                   "GPUs of the server, for tok/s/GPU [as nibble reports, else 1]", "N")
      ->check(CLI::Range(1, 1 << 16));
}

void add_load_flags(CLI::App& command, BenchServeOptions& options) {
  auto* clients = add_numbers(command, "--clients", options.clients,
                              "concurrent clients, each waiting for its answer; one load per number [1]");
  add_serve_option(command, "--rate", options.rates,
                   "requests per second instead, regardless of open requests; one load per rate", "R,R...")
      ->delimiter(',')
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CLI::Range(1e-3, 1e6))
      ->excludes(clients);
  add_serve_option(
      command, "--requests", options.requests,
      "requests of a load (with --turns: conversations); 10x: 10 per client [64, or 10x if more]", "N|Nx");
  add_serve_option(
      command, "--warmup", options.warmup,
      "the same for uncounted requests before each load, at its concurrency or rate [2x; --rate: 2]", "N|Nx");
  add_serve_option(command, "--min-seconds", options.min_seconds,
                   "a load sends further requests until then [0; 30 in a search for a rate]", "S")
      ->check(CLI::Range(0.0, 1e6));
  add_serve_option(
      command, "--slo", options.slo,
      "limits in seconds on ttft, tpot and e2e, such as ttft=3,tpot=0.08. Shows the share of requests within "
      "them; without --clients and --rate, finds the highest rate at which 99 % are",
      "LIMITS");
}

void add_workload_flags(CLI::App& command, BenchServeOptions& options) {
  auto* prompt =
      add_serve_option(
          command, "--prompt-tokens", options.prompt_tokens,
          "N; A-B: uniform; exp:N: exponential with mean N; lognormal:N:S: with mean N and sigma S", "LENGTH")
          ->capture_default_str();
  auto* output =
      add_serve_option(command, "--output-tokens", options.output_tokens, "the same for answers", "LENGTH")
          ->capture_default_str();
  add_serve_option(
      command, "--workload", options.workload,
      "lengths as in InferenceX: 1k1k, 1k8k or 8k1k, uniform from 0.8 L to L; or a file of requests",
      "NAME|FILE")
      ->excludes(prompt)
      ->excludes(output);
  add_serve_option(
      command, "--vocab-size", options.vocab_size,
      "token ids of prompts are below N [as nibble reports, else 199998: the text tokens of gpt-oss]", "N")
      ->check(CLI::Range(1, 1 << 24));
  add_serve_option(command, "--turns", options.num_turns,
                   "requests of a conversation, whose prompts grow with the answers", "N")
      ->check(CLI::Range(1, 1 << 10))
      ->capture_default_str();
  add_serve_option(command, "--prefix-tokens", options.num_prefix_tokens,
                   "additional tokens of a prefix shared by all prompts", "N")
      ->check(CLI::Range(0, kMaxLengthTokens))
      ->capture_default_str();
  add_serve_option(command, "--prefixes", options.num_prefixes,
                   "number of different prefixes, used equally often", "N")
      ->check(CLI::Range(1, kMaxLengthTokens))
      ->capture_default_str();
}

}  // namespace

void add_bench_serve_flags(CLI::App& command, BenchServeOptions& options) {
  add_server_flags(command, options);
  add_load_flags(command, options);
  add_workload_flags(command, options);
  add_serve_option(command, "--temperature", options.temperature,
                   "sampling temperature; 0: the likeliest token", "T")
      ->check(CLI::Range(0.0, 2.0))
      ->capture_default_str();
  add_serve_option(command, "--seed", options.seed, "seed of prompts, lengths and arrivals [random]", "N");
  add_serve_option(command, "--timeout", options.timeout_seconds, "timeout of a request in seconds", "S")
      ->check(CLI::Range(0.01, 1e6))
      ->capture_default_str();
  add_serve_option(command, "--extra-body", options.extra_body,
                   "members to add to each request or to replace in it", "JSON");
  add_serve_option(
      command, "--latency-mode", options.latency_mode,
      "latency to subtract from TTFR for est_ppt: api (of the list of models), generation (of one "
      "token), none",
      "MODE")
      ->check(CLI::IsMember({"api", "generation", "none"}))
      ->capture_default_str();
  auto* json = command.add_flag("--json", options.as_json,
                                "one JSON object instead of the table; times are in seconds");
  command
      .add_flag("--token-times", options.with_token_times,
                "add each request to the JSON, with the times of all its tokens in milliseconds")
      ->needs(json);
}

}  // namespace nibble::cli
