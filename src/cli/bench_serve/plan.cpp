#include "cli/bench_serve/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "cli/options.h"
#include "core/errors/error.h"
#include "core/files/mapped_file.h"

namespace nibble::cli {
namespace {

constexpr int kMostClients{1 << 16};
constexpr RequestCount kRequests{10, true}, kWarmups{2, true};
constexpr int kLeastRequests{64};
constexpr double kSearchSeconds{30};  // a shorter load does not show whether the server keeps up with a rate

Json extra_body_of(const std::string& text) {
  Json body = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object())
    throw InputError("--extra-body: expected a JSON object, such as '{{\"top_p\": 0.9}}'");
  return body;
}

std::string range_text(const LengthDistribution& uniform) {
  return fmt::format("{}-{}", uniform.least, uniform.most);
}

const NamedWorkload* named_workload(const BenchServeOptions& options) {
  return options.workload ? find_workload(*options.workload) : nullptr;
}

}  // namespace

int LoadPlan::num_requests(const BenchLoad& load, size_t trace_size) const {
  const bool is_replay = !load.num_clients && !load.rate;
  const int most = static_cast<int>(trace_size);
  if (is_replay && !requests) return most;
  int count = load.num_clients ? std::max(kLeastRequests, count_for(load, kRequests, "")) : kLeastRequests;
  if (requests) count = count_for(load, *requests, "--requests");
  if (is_replay && count > most)
    throw InputError("--requests {}: the trace has {} requests; --clients or --rate repeat them", count,
                     most);
  if (load.rate)
    count =
        std::max(count, static_cast<int>(std::min(std::ceil(*load.rate * min_seconds), 1.0 * kMostRequests)));
  return count;
}

int LoadPlan::num_warmups(const BenchLoad& load) const {
  if (warmup) return count_for(load, *warmup, "--warmup");
  return load.num_clients ? count_for(load, kWarmups, "") : kWarmups.number;
}

LoadPlan load_plan(const BenchServeOptions& options, bool trace_has_times) {
  LoadPlan plan;
  for (const double rate : options.rates) plan.loads.push_back({.rate = rate});
  if (!options.clients.empty())
    for (const int clients : read_numbers(options.clients, "--clients", 1, kMostClients))
      plan.loads.push_back({.num_clients = clients});
  plan.timeout_seconds = options.timeout_seconds;
  plan.keeps_answers = options.with_token_times;
  if (options.slo) plan.slo = read_slo(*options.slo, "--slo");
  const bool is_replay = plan.loads.empty() && trace_has_times;
  const bool is_search = plan.loads.empty() && !is_replay && plan.slo;
  if (is_replay && options.min_seconds)
    throw InputError("--min-seconds: the trace's times end with the trace; give --clients or --rate as well");
  if (is_replay) plan.loads.push_back({});
  if (plan.loads.empty() && !is_search) plan.loads.push_back({.num_clients = 1});
  if (options.requests) plan.requests = read_request_count(*options.requests, "--requests", 1);
  if (options.warmup) plan.warmup = read_request_count(*options.warmup, "--warmup", 0);
  plan.min_seconds = options.min_seconds.value_or(is_search ? kSearchSeconds : 0);
  // Check all loads before the first one runs. A search consists of loads with a rate.
  constexpr size_t kNoLimit{kMostRequests};
  for (const BenchLoad& load : is_search ? std::vector<BenchLoad>{{.rate = 1}} : plan.loads) {
    plan.num_requests(load, kNoLimit);
    plan.num_warmups(load);
  }
  return plan;
}

Endpoint endpoint_of(const BenchServeOptions& options) {
  Endpoint endpoint = read_endpoint(options.url);
  const char* variable = std::getenv("NIBBLE_API_KEY");
  if (!variable) variable = std::getenv("OPENAI_API_KEY");
  endpoint.api_key = options.api_key.value_or(variable ? variable : "");
  return endpoint;
}

Trace trace_of(const BenchServeOptions& options) {
  if (!options.workload || named_workload(options)) return {};
  if (!std::filesystem::exists(*options.workload))
    throw InputError("--workload '{}': expected {}, or a file with a JSON object per line", *options.workload,
                     kWorkloadNames);
  if (options.num_turns > 1)
    throw InputError("--turns: a file has single requests; use --prompt-tokens and --output-tokens instead");
  constexpr size_t kMostBytes{size_t{1} << 30};
  return read_trace(read_text_file(*options.workload, kMostBytes), *options.workload);
}

Workload workload_of(const BenchServeOptions& options, const Trace& trace,
                     const std::optional<Json>& status) {
  Workload workload{.api = options.api == "chat" ? BenchApi::kChat : BenchApi::kCompletions,
                    .model = options.model.value_or(""),
                    .prompt_tokens = read_length(options.prompt_tokens, "--prompt-tokens"),
                    .output_tokens = read_length(options.output_tokens, "--output-tokens"),
                    .trace = trace.requests,
                    .num_prefix_tokens = options.num_prefix_tokens,
                    .num_prefixes = options.num_prefixes,
                    .num_turns = options.num_turns,
                    .vocab_size = status ? status->at("vocab").get<int>() : kTextTokens,
                    .temperature = options.temperature,
                    .seed = options.seed ? *options.seed : std::random_device()()};
  if (const NamedWorkload* named = named_workload(options)) {
    workload.prompt_tokens = named->prompt_tokens;
    workload.output_tokens = named->output_tokens;
  }
  if (options.vocab_size) workload.vocab_size = *options.vocab_size;
  if (options.extra_body) workload.extra_body = extra_body_of(*options.extra_body);
  return workload;
}

std::string prompt_tokens_text(const BenchServeOptions& options) {
  const NamedWorkload* named = named_workload(options);
  return named ? range_text(named->prompt_tokens) : options.prompt_tokens;
}

std::string output_tokens_text(const BenchServeOptions& options) {
  const NamedWorkload* named = named_workload(options);
  return named ? range_text(named->output_tokens) : options.output_tokens;
}

}  // namespace nibble::cli
