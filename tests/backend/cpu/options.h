// Options for tests of the CPU backend: the common options and the backend's own.
#pragma once

#include <memory>
#include <utility>

#include "backend/cpu/cpu_backend.h"

namespace nibble::cpu {

struct TestOptions : BackendOptions {
  CpuOptions cpu{};
};

inline std::unique_ptr<Backend> make(std::shared_ptr<const Weights> weights, const TestOptions& options) {
  return make(std::move(weights), options, options.cpu);
}
inline MemoryPlan plan(const Config& config, const TestOptions& options) {
  return plan(config, options, options.cpu);
}

}  // namespace nibble::cpu
