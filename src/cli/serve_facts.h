// Setup of a server, as shown by /status and `nibble serve --check`.
#pragma once

#include <span>

#include "backend/backend.h"
#include "server/service/options.h"
#include "setup/capacity.h"
#include "setup/model.h"
#include "setup/resolve.h"

namespace nibble::cli {

// `budgets` is the memory that the model could take before it was loaded. `backend`: null before that; then the kernels are left out.
server::SetupFacts setup_facts(const Model& model, const ResolvedSettings& setup, const BackendOptions& room,
                               const Backend* backend, std::span<const size_t> budgets);

// Weights in the memory of the host, which a step may have to read from a disk again.
size_t host_weight_bytes(const Model& model, const ResolvedSettings& setup, const BackendOptions& room);

// `serve --check`: everything was opened and nothing is loaded. Throws InputError where the address is wrong or memory lacks; else prints
// what would be served. Returns the exit code. The port is not taken: a running server can be checked beside.
int check(const server::ServerOptions& options, const Model& model, const ResolvedSettings& setup,
          const Capacity& capacity);

}  // namespace nibble::cli
