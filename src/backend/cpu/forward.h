// The forward pass of this backend: the operations of the reference, in its order and under its names.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "backend/cpu/activations.h"
#include "backend/cpu/attention/rope.h"
#include "backend/cpu/batch_row.h"
#include "backend/cpu/kv_cache.h"
#include "backend/cpu/machine.h"
#include "backend/cpu/packed_model.h"
#include "backend/cpu/work_clock.h"
#include "model/weights.h"

namespace nibble::cpu {

struct ForwardArgs {
  const Machine& machine;
  const PackedModel& packed;  // what takes int8 activations
  const RopeFrequencies& rope;
  std::span<const BatchRow> rows;  // [T]
  std::span<const int> outputs;    // rows whose logits are wanted
  KvCache& kv;                     // keys and values of all rows are written
  const Activations& activations;
  // Is given logits [n, V], to do with as it likes, of outputs [first, first + n); n is at most kOutputRows.
  std::function<void(ptrdiff_t first, View<float, 2> logits)> take_logits;
  WorkClock& clock;  // is told each operation
};
void forward(const ForwardArgs& args);

}  // namespace nibble::cpu
