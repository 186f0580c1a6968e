// Attention of each row over its sequence, with a learned sink per head.
//
//   s_j = (q . k_j) / sqrt(D)        out = sum_j exp(s_j - m) v_j / (sum_j exp(s_j - m) + exp(sink - m))
//   m = max(max_j s_j, sink)         j over the positions up to the row's own, the last `window` of them if given
//
// The sink is one more column of the softmax without a value: the running sum starts with it, at m = sink.
// Query head h reads key/value head h / (Nq / Nkv).
//
// Bytes: 4 D (FP8: 2 D) for each visible position and kv head; the query heads that share a kv head share each load of it.
// Design: what a row sees is summed up in pieces, page by page in each, with m corrected where a score is larger; the pieces
// are then added in ascending order, each scaled to the largest m. Pieces end at multiples of kPiecePositions, whatever the batch
// and the chunks of a prompt; what is no longer than one is one. So the bits depend on the row's sequence and position alone.
// An item of work is one row and one kv head, or one piece of such a row where items are few for the threads there are: its sum
// then waits in `parts`, and a second, small loop adds (docs/decisions/0011).
#pragma once

#include <optional>
#include <span>

#include "backend/cpu/batch_row.h"
#include "backend/cpu/kv_cache.h"
#include "backend/cpu/machine.h"
#include "core/view.h"
#include "model/weights.h"

namespace nibble::cpu {

inline constexpr int kPiecePositions{512};

struct AttendArgs {
  const Machine& machine;
  View<const float, 3> q;  // [T, Nq, D*]
  std::span<const BatchRow> rows;
  LayerKv kv;
  Vector sinks;               // [Nq]
  std::optional<int> window;  // positions that a row sees, its own included
  View<float, 3> parts;  // [any, Nq, 2 + D*], scratch: m, sum and out of pieces; rows beyond that stay whole
  View<float, 2> attended;  // [T, (Nq D)*]
};
void attend(const AttendArgs& args);

}  // namespace nibble::cpu
