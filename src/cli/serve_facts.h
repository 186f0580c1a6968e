// A server's setup, as shown by /status and `nibble serve --check`.
#pragma once

#include <span>

#include "backend/backend.h"
#include "server/service/options.h"
#include "setup/capacity.h"
#include "setup/model.h"
#include "setup/resolved_settings.h"

namespace nibble::cli {

// `budgets`: memory available before the model was loaded (memory_budgets()). `backend` is null before the
// model is loaded; the facts then lack kernels.
server::SetupFacts setup_facts(const Model& model, const ResolvedSettings& setup, const BackendOptions& room,
                               const Backend* backend, std::span<const size_t> budgets);

// Bytes of weights in host memory, which a step may have to read again from disk after eviction.
size_t host_weight_bytes(const Model& model, const ResolvedSettings& setup, const BackendOptions& room);

// `serve --check`: prints what would be served, before anything is loaded. Returns the exit code; throws
// InputError for a wrong address or too little memory. Does not bind the port: a running server may use it.
int check(const server::ServerOptions& options, const Model& model, const ResolvedSettings& setup,
          const Capacity& capacity);

}  // namespace nibble::cli
