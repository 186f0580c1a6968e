// Reports bench serve: a Markdown table, extended after each load, or JSON with all figures.
#pragma once

#include <string>
#include <vector>

#include "cli/bench_serve/latency.h"
#include "cli/bench_serve/workload.h"
#include "cli/measure/run_record.h"
#include "core/json.h"

namespace nibble::cli {

struct BenchLoad {
  int num_clients{0};  // each sends its next request after its answer; 0: requests arrive at `rate`
  double rate{0};      // requests per second
};
std::string name(const BenchLoad& load);  // "16 clients", "2.5 /s"

struct BenchServeSetup {
  RunRecord record;  // describes the client's machine, not the server's
  std::string url;
  Workload workload;
  std::string prompt_tokens, output_tokens;  // as given by the flags
};

struct BenchServeResult {
  BenchLoad load;
  LoadSummary summary;
};

std::string serve_markdown_header();
std::string serve_markdown_row(const BenchServeResult& result);
std::string serve_markdown_footer(const BenchServeSetup& setup, const std::vector<BenchServeResult>& results);
nlohmann::ordered_json serve_json(const BenchServeSetup& setup, const std::vector<BenchServeResult>& results);

}  // namespace nibble::cli
