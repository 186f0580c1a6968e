// Measures the latency of a minimal request, as in llama-benchy; excluded from est_ppt, the estimated prompt
// processing time.
#pragma once

#include <optional>
#include <string>

#include "cli/bench_serve/endpoint.h"
#include "cli/bench_serve/workload.h"

namespace nibble::cli {

// Returns the mean of three requests on an open connection, in seconds; nullopt if a request failed. `mode`:
// "api" requests the list of models; "generation" requests an answer of one token to a prompt of one word,
// and its time ends with the first event; "none" returns 0.
std::optional<double> base_latency(const Endpoint& endpoint, const Workload& workload,
                                   const std::string& mode, double timeout_seconds);

}  // namespace nibble::cli
