// Reports what bench serve measured: a Markdown table that gains a row per load, or JSON with all figures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/bench_serve/latency.h"
#include "cli/bench_serve/load.h"
#include "cli/bench_serve/rate_search.h"
#include "cli/bench_serve/slo.h"
#include "cli/bench_serve/workload.h"
#include "cli/measure/coherence.h"
#include "cli/measure/run_record.h"
#include "core/text/json.h"

namespace nibble::cli {

struct BenchServeSetup {
  RunRecord record;  // describes the client's machine
  std::string url;
  Workload workload;
  std::optional<std::string> workload_name;  // --workload: a name or a file
  std::string prompt_tokens, output_tokens;  // lengths as given by the flags
  int num_gpus{1};                           // GPUs of the server
  std::optional<Slo> slo;
  std::string latency_mode{"api"};
  std::optional<double> latency{};  // latency of a minimal request; nullopt: unknown
};

struct BenchServeResult {
  BenchLoad load;
  LoadSummary summary;
  int num_warmups{0};
  std::optional<double> slo_share;     // share of requests that met the SLO
  std::vector<TimedAnswer> answers{};  // kept only with --token-times
};

struct BenchServeRun {
  std::vector<BenchServeResult> results;
  std::optional<RateBounds> bounds;  // result of a search for the highest rate
  Json server;                       // members that describe the server: server_json()
  Coherence coherence{};             // the answer to a question asked after the loads
};

std::string serve_markdown_header(const BenchServeSetup& setup);
std::string serve_markdown_row(const BenchServeSetup& setup, const BenchServeResult& result);
std::string serve_markdown_footer(const BenchServeSetup& setup, const BenchServeRun& run);
Json serve_json(const BenchServeSetup& setup, const BenchServeRun& run);

}  // namespace nibble::cli
