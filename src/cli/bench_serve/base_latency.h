// The latency of a request without a prompt, which est_ppt leaves out, as llama-benchy measures it.
#pragma once

#include <optional>
#include <string>

#include "cli/bench_serve/endpoint.h"
#include "cli/bench_serve/workload.h"

namespace nibble::cli {

// The mean of three requests on an open connection, in seconds. `mode`: "api", the list of models;
// "generation", the first event of an answer of one token to a prompt of one word; "none", 0. nullopt: a
// request failed.
std::optional<double> base_latency(const Endpoint& endpoint, const Workload& workload,
                                   const std::string& mode, double timeout_seconds);

}  // namespace nibble::cli
