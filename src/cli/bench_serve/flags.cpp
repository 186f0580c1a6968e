#include "cli/bench_serve/flags.h"

#include "cli/bench_serve/lengths.h"
#include "cli/options.h"

namespace nibble::cli {
namespace {

void add_server_flags(CLI::App& command, BenchServeOptions& options) {
  add_value(command, "URL", "", options.url, "address of the server, such as http://127.0.0.1:8080")
      ->required();
  add_value(command, "--model", "NAME", options.model,
            "model to request [the first one that the server lists]");
  add_value(command, "--api-key", "KEY", options.api_key,
            "key to send as 'Authorization: Bearer KEY' [the variable NIBBLE_API_KEY\nor OPENAI_API_KEY]");
  add_value(command, "--api", "NAME", options.api, "endpoint: completions or chat")
      ->check(CLI::IsMember({"completions", "chat"}))
      ->capture_default_str();
  add_value(command, "--num-gpus", "N", options.num_gpus,
            "GPUs of the server, for tok/s/GPU [as nibble reports, else 1]")
      ->check(CLI::Range(1, 1 << 16));
}

void add_load_flags(CLI::App& command, BenchServeOptions& options) {
  auto* clients = add_numbers(command, "--clients", options.clients,
                              "concurrent clients, each waiting for its answer; one load per number [1]");
  add_value(command, "--rate", "R,R...", options.rates,
            "requests per second instead, regardless of open requests; one load per rate")
      ->delimiter(',')
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CLI::Range(1e-3, 1e6))
      ->excludes(clients);
  add_value(command, "--requests", "N|Nx", options.requests,
            "requests of a load (with --turns: conversations); 10x: 10 per client [64, or 10x if more]");
  add_value(command, "--warmup", "N|Nx", options.warmup,
            "the same for uncounted requests before each load, at its concurrency or rate [2x; --rate: 2]");
  add_value(command, "--min-seconds", "S", options.min_seconds,
            "a load sends further requests until then [0; 30 in a search for a rate]")
      ->check(CLI::Range(0.0, 1e6));
  add_value(
      command, "--slo", "LIMITS", options.slo,
      "limits in seconds on ttft, tpot and e2e, such as ttft=3,tpot=0.08. Shows the share of requests within "
      "them; without --clients and --rate, finds the highest rate at which 99 % are");
}

void add_workload_flags(CLI::App& command, BenchServeOptions& options) {
  auto* prompt =
      add_value(command, "--prompt-tokens", "LENGTH", options.prompt_tokens,
                "N; A-B: uniform; exp:N: exponential with mean N; lognormal:N:S: with mean N and sigma S")
          ->capture_default_str();
  auto* output =
      add_value(command, "--output-tokens", "LENGTH", options.output_tokens, "the same for answers")
          ->capture_default_str();
  add_value(command, "--workload", "NAME|FILE", options.workload,
            "lengths as in InferenceX: 1k1k, 1k8k or 8k1k, uniform from 0.8 L to L; or a file of requests")
      ->excludes(prompt)
      ->excludes(output);
  add_value(command, "--vocab-size", "N", options.vocab_size,
            "token ids of prompts are below N [as nibble reports, else 199998: the text tokens of gpt-oss]")
      ->check(CLI::Range(1, 1 << 24));
  add_value(command, "--turns", "N", options.num_turns,
            "requests of a conversation, whose prompts grow with the answers")
      ->check(CLI::Range(1, 1 << 10))
      ->capture_default_str();
  add_value(command, "--prefix-tokens", "N", options.num_prefix_tokens,
            "additional tokens of a prefix shared by all prompts")
      ->check(CLI::Range(0, kMaxLengthTokens))
      ->capture_default_str();
  add_value(command, "--prefixes", "N", options.num_prefixes,
            "number of different prefixes, used equally often")
      ->check(CLI::Range(1, kMaxLengthTokens))
      ->capture_default_str();
}

}  // namespace

void add_bench_serve_flags(CLI::App& command, BenchServeOptions& options) {
  add_server_flags(command, options);
  add_load_flags(command, options);
  add_workload_flags(command, options);
  add_value(command, "--temperature", "T", options.temperature,
            "sampling temperature; 0: the likeliest token")
      ->check(CLI::Range(0.0, 2.0))
      ->capture_default_str();
  add_value(command, "--seed", "N", options.seed, "seed of prompts, lengths and arrivals [random]");
  add_value(command, "--timeout", "S", options.timeout_seconds, "timeout of a request in seconds")
      ->check(CLI::Range(0.01, 1e6))
      ->capture_default_str();
  add_value(command, "--extra-body", "JSON", options.extra_body,
            "members to add to each request or to replace in it");
  add_value(command, "--latency-mode", "MODE", options.latency_mode,
            "latency to subtract from TTFR for est_ppt: api (of the list of models), generation (of one "
            "token), none")
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
