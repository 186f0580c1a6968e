// The reference as a backend: plain loops on a paged float32 KV cache. Other backends are tested against it.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace nibble::reference {

// Throws InputError for options that the reference does not support.
void check(const BackendOptions& options);
MemoryPlan plan(const Config& config, const BackendOptions& options);
std::unique_ptr<Backend> make(std::shared_ptr<const Weights> weights, const BackendOptions& options);

}  // namespace nibble::reference
