// Reports whether the engine makes progress, to probes and to the service manager. A stalled engine is one in
// which requests wait and no step has ended for too long.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>

#include "core/text/json.h"
#include "engine/progress.h"
#include "server/service/service.h"

namespace nibble::server {

// Limit on the time without a finished step. The default suffices for many tokens on a slow CPU, and for
// reading all weights again from a slow disk.
struct StepLimit {
  std::optional<std::chrono::seconds> given{};  // --step-timeout
  size_t num_host_bytes{0};                     // weights in host memory

  static constexpr double kLeastSeconds{60};
  static constexpr double kSlowDisk{100e6};  // bytes per second
  // Margin over the expected time, because tokens with long contexts are slower.
  static constexpr double kSlowdown{4};

  double seconds(const EngineProgress& progress) const {
    if (given) return static_cast<double>(given->count());
    return std::max({kLeastSeconds, static_cast<double>(num_host_bytes) / kSlowDisk,
                     kSlowdown * progress.expected_seconds});
  }
};

enum class Stall {
  kNone,
  kSlow,     // the limit has passed: new requests should go elsewhere
  kForever,  // twice the limit has passed: the process should be restarted
};

inline Stall stall_of(const EngineProgress& progress, const StepLimit& limit) {
  const double most = limit.seconds(progress);
  if (progress.seconds > 2 * most) return Stall::kForever;
  return progress.seconds > most ? Stall::kSlow : Stall::kNone;
}

struct Condition {
  Stall stall{Stall::kNone};
  Json json{{"status", "ok"}};
};

Condition condition_of(const Service& service);

}  // namespace nibble::server
