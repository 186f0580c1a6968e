// Turns the flags of bench serve into the loads to measure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench_serve/endpoint.h"
#include "cli/bench_serve/flags.h"
#include "cli/bench_serve/load.h"
#include "cli/bench_serve/slo.h"
#include "cli/bench_serve/trace.h"
#include "cli/bench_serve/workload.h"
#include "core/text/json.h"

namespace nibble::cli {

// The loads to measure, in order, or a search for the highest rate at which the server holds the SLO.
struct LoadPlan {
  std::vector<BenchLoad> loads;  // empty: search for the highest rate instead
  std::optional<RequestCount> requests, warmup;
  double timeout_seconds{0};  // limit per request
  bool keeps_answers{false};  // set by --token-times
  double min_seconds{0};
  std::optional<Slo> slo;

  // Returns the number of conversations of a load; by default several per client. `trace_size`: number of
  // requests in the trace.
  int num_requests(const BenchLoad& load, size_t trace_size) const;
  int num_warmups(const BenchLoad& load) const;
};
// The functions below throw InputError. `trace_has_times`: the workload is a trace with arrival times.
LoadPlan load_plan(const BenchServeOptions& options, bool trace_has_times);
Endpoint endpoint_of(const BenchServeOptions& options);
// Reads the trace file of --workload. Empty if --workload is missing or names a built-in workload.
Trace trace_of(const BenchServeOptions& options);
// Returns the whole workload except its model. `status`: status of the server, if the server is nibble.
Workload workload_of(const BenchServeOptions& options, const Trace& trace, const std::optional<Json>& status);
// Return the values used for --prompt-tokens and --output-tokens. A named workload overrides the flags.
std::string prompt_tokens_text(const BenchServeOptions& options);
std::string output_tokens_text(const BenchServeOptions& options);

}  // namespace nibble::cli
