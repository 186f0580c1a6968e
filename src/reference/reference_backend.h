// The reference behind the contract of a backend: the page of plain loops, fed from a paged float32 KV cache. Slow, and
// what the others are tested against.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace nibble::reference {

MemoryPlan plan(const Config& config, const BackendOptions& options);
std::unique_ptr<Backend> make(std::shared_ptr<const Weights> weights, const BackendOptions& options);

}  // namespace nibble::reference
