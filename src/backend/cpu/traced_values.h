// Copies an operation's result from the activations and the KV cache.
#pragma once

#include <span>
#include <vector>

#include "backend/cpu/activations.h"
#include "backend/cpu/batch_row.h"
#include "backend/cpu/kv_cache.h"
#include "backend/traced_result.h"
#include "model/config.h"

namespace nibble::cpu {

struct TracedStep {
  std::span<const BatchRow> rows;
  const Config& config;
  const KvCache& kv;
  const Activations& activations;
};
// Returns TracedResult::values of an operation, in natural order. Call it right after the operation, and not
// for kUnembed.
std::vector<float> traced_values(const TracedStep& step, int layer, Operation operation);

}  // namespace nibble::cpu
