// Asks the measured server the question of cli/measure/coherence.h in a chat.
#pragma once

#include <string>

#include "cli/bench_serve/endpoint.h"
#include "cli/measure/coherence.h"

namespace nibble::cli {

// Sends one streamed chat request with temperature 0. On failure the result has a reason and no answer.
Coherence ask_server(const Endpoint& endpoint, const std::string& model, double timeout_seconds);

}  // namespace nibble::cli
