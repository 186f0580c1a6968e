// A server's setup, as shown by /status and `nibble serve --check`.
#pragma once

#include <span>

#include "backend/backend.h"
#include "server/service/options.h"
#include "setup/model/model.h"
#include "setup/plan/capacity.h"
#include "setup/settings/resolved_settings.h"

namespace nibble::cli {

// Returns the facts for /status. `budgets`: memory_budgets() before the model is loaded. `backend`: null if
// the model is not loaded; the facts then list no kernels.
server::SetupFacts setup_facts(const Model& model, const ResolvedSettings& setup, const BackendOptions& room,
                               const Backend* backend, std::span<const size_t> budgets);

// Returns the bytes of weights in host memory. If they are evicted, a step has to read them from disk again.
size_t host_weight_bytes(const Model& model, const ResolvedSettings& setup, const BackendOptions& room);

// `serve --check`: prints what would be served, without loading a model. Returns the exit code; throws
// InputError for a wrong address or too little memory. Does not bind the port: a running server may use it.
int check(const server::ServerOptions& options, const Model& model, const ResolvedSettings& setup,
          const Capacity& capacity);

}  // namespace nibble::cli
