// From the flags to what is measured.
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
#include "core/json.h"

namespace nibble::cli {

// Loads, or a search for the highest rate that holds the SLO.
struct LoadPlan {
  std::vector<BenchLoad> loads;  // empty: a search
  std::optional<RequestCount> requests, warmup;
  double timeout_seconds{0};  // of a request
  bool keeps_answers{false};  // for --token-times
  double min_seconds{0};
  std::optional<Slo> slo;

  // Conversations of a load; `trace_size`: requests of the trace. By default enough for each client to have
  // several.
  int num_requests(const BenchLoad& load, size_t trace_size) const;
  int num_warmups(const BenchLoad& load) const;
};
// These throw InputError. `trace_has_times`: the workload is a trace that says when its requests arrive.
LoadPlan load_plan(const BenchServeOptions& options, bool trace_has_times);
Endpoint endpoint_of(const BenchServeOptions& options);
// The trace of --workload; empty without one, or if it is a name.
Trace trace_of(const BenchServeOptions& options);
// All of the workload but its model. `status`: the server's, if it is nibble.
Workload workload_of(const BenchServeOptions& options, const Trace& trace,
                     const std::optional<nlohmann::ordered_json>& status);
// --prompt-tokens and --output-tokens as they apply: those of a named workload replace the flags.
std::string prompt_tokens_text(const BenchServeOptions& options);
std::string output_tokens_text(const BenchServeOptions& options);

}  // namespace nibble::cli
