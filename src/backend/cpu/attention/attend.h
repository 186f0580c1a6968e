// Attention of each row over its sequence, with a learned sink for each head.
//
//   s_j = (q . k_j) / sqrt(D)        out = sum_j exp(s_j - m) v_j / (sum_j exp(s_j - m) + exp(sink - m))
//   m = max(max_j s_j, sink)         j over the positions up to the row's own, or the last `window` of these
//
// The sink is another column of the softmax, without a value: the running sum starts with it, at m = sink.
// Query head h reads key/value head h / (Nq / Nkv).
//
// Bytes: 4 D (FP8: 2 D) per visible position and kv head; the query heads of a kv head share each load.
//
// Design: the positions that a row sees are divided into pieces. The partial softmax of a piece is computed
// page by page with a running maximum m; the pieces are then merged in ascending order, each scaled to the
// largest m. Pieces end at multiples of kPiecePositions, whatever the batch and the prefill chunks; a row
// that sees at most that many positions is one piece. So the bits depend only on the row's sequence and
// position. A work item is one row and one kv head or, if that gives too few items for the threads, one piece
// of such a row: its partial softmax is then stored in `parts`, and a second, small loop merges the pieces
// (docs/decisions/0011).
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
  std::optional<int> window;  // positions that a row sees, including its own
  // [any, Nq, 2 + D*], scratch: m, sum and out of each piece. A row whose pieces do not fit is not divided.
  View<float, 3> parts;
  View<float, 2> attended;  // [T, (Nq D)*]
};
void attend(const AttendArgs& args);

}  // namespace nibble::cpu
