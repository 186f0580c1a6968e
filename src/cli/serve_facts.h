// Setup of a server, as shown by /status and `nibble serve --check`.
#pragma once

#include <span>

#include "backend/backend.h"
#include "server/service/options.h"
#include "setup/capacity.h"
#include "setup/model.h"
#include "setup/resolved_settings.h"

namespace nibble::cli {

// Collects the facts. `budgets` is the memory that was available before the model was loaded
// (memory_budgets()). `backend` is null if the model is not loaded; the kernels are then left out.
server::SetupFacts setup_facts(const Model& model, const ResolvedSettings& setup, const BackendOptions& room,
                               const Backend* backend, std::span<const size_t> budgets);

// Returns the bytes of weights in host memory, which a step may have to read from disk
// again if they were evicted.
size_t host_weight_bytes(const Model& model, const ResolvedSettings& setup, const BackendOptions& room);

// Runs `serve --check`, after everything has been opened and before anything is loaded. Throws InputError if
// the address is wrong or memory is insufficient; otherwise prints what would be served. Returns the exit
// code. Does not bind the port, so that the configuration of a running server can be checked.
int check(const server::ServerOptions& options, const Model& model, const ResolvedSettings& setup,
          const Capacity& capacity);

}  // namespace nibble::cli
