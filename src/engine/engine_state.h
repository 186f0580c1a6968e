// The engine's state as other threads see it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "engine/progress.h"
#include "engine/scheduler.h"
#include "speculative/draft_counts.h"

namespace nibble {

// Updated after each step and whenever requests arrive or are cancelled.
struct EngineState {
  int num_running{0}, num_waiting{0};
  PageCounts pages_held{};  // pages of running sequences
  int num_pages{0};         // pages of all KV caches, for full and sliding layers together
  uint64_t num_faults{0};   // failed steps, in the backend or in the engine
  SchedulerCounts counts{};
  speculative::DraftCounts drafts{};
  std::vector<KernelLaunches> launches{};  // kernels launched by the backend
  std::vector<Counter> steps{};            // the backend's counts of steps, one per kind of launch
  EngineProgress progress{};
  // Reason why no further step can run: the backend is lost, or three steps in a row failed with the same
  // fault. Then all requests fail, later ones too. Empty while the engine works.
  std::string lost{};
};

}  // namespace nibble
