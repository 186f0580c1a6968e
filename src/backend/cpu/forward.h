// The forward pass: operations with the names and in the order of src/reference.
#pragma once

#include <functional>
#include <span>

#include "backend/cpu/activations.h"
#include "backend/cpu/attention/rope.h"
#include "backend/cpu/batch_row.h"
#include "backend/cpu/kv_cache.h"
#include "backend/cpu/machine.h"
#include "backend/cpu/packed_model.h"
#include "backend/cpu/work_clock.h"
#include "backend/rank_links.h"
#include "model/adapter/request_adapter.h"
#include "model/weights.h"

namespace nibble::cpu {

struct ForwardArgs {
  const Machine& machine;
  const PackedModel& packed;  // the weights; matrices in strips take int8 activations
  const RopeFrequencies& rope;
  std::span<const BatchRow> rows;
  std::span<const int> outputs;  // indices of the rows whose logits are needed
  KvCache& kv;                   // receives keys and values of all rows
  const Activations& activations;
  // Called with the logits [n, V] of outputs [first, first + n), n <= kOutputRows. May overwrite the logits.
  std::function<void(ptrdiff_t first, View<float, 2> logits)> take_logits;
  WorkClock& clock;  // records the time of each operation
  // If set, called after each layer with the residual stream.
  std::function<void(int layer, View<const float, 2> x)> tap{};
  // Set if the weights are one rank's share. Then only rank 0 calls take_logits.
  RankLinks* links{nullptr};
  std::span<const RequestAdapter> adapters{};  // indexed by Run::adapter; in split order
};
void forward(const ForwardArgs& args);  // throws StepCut once machine.is_stopped()

}  // namespace nibble::cpu
