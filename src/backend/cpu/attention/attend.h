// Attention of each row over its sequence, with a learned sink for each head:
//   s_j = (q . k_j) / sqrt(D)        out = sum_j exp(s_j - m) v_j / (sum_j exp(s_j - m) + exp(sink - m))
//   m = max(max_j s_j, sink)         j over the positions up to the row's own, or the last `window` of these
// The sink is a column of the softmax without a value: the running sum starts at 1, with m = sink. Query head
// h reads kv head h / (Nq / Nkv); all query heads of a kv head share each load. Memory traffic: 4 D bytes
// (FP8: 2 D) per visible position and kv head.
//
// Design: the positions that a row sees are divided into pieces, which end at multiples of kPiecePositions; a
// row that sees at most kPiecePositions is one piece. The partial softmax of a piece is computed page by page
// with a running maximum; pieces are merged in ascending order. So the result depends only on the row's
// sequence and position, not on the batch or on prefill chunks. A work item is one row and one kv head. A
// row that is a large part of a thread's work is split: each of its pieces is then a work item for each kv
// head. The piece's partial softmax goes to `parts`, and a second, small loop merges the pieces
// (docs/decisions/0011).
#pragma once

#include <optional>
#include <span>

#include "backend/cpu/batch_row.h"
#include "backend/cpu/kv_cache.h"
#include "backend/cpu/machine.h"
#include "core/tensors/view.h"
#include "model/weights.h"

namespace nibble::cpu {

inline constexpr int kPiecePositions{512};

struct AttendArgs {
  const Machine& machine;
  View<const float, 3> q;  // [T, Nq, D*]: rotated queries
  std::span<const BatchRow> rows;
  LayerKv kv;
  Vector sinks;               // [Nq]: the score of each head's sink
  std::optional<int> window;  // positions that a row sees, including its own; not set: all
  // Scratch, [P, Nq, 2 + D*] with any P: the partial softmaxes (maximum, sum, output) of P pieces. A row of
  // more than P pieces is not split.
  View<float, 3> parts;
  View<float, 2> attended;  // [T, (Nq D)*]: receives the output of every head
};
void attend(const AttendArgs& args);

}  // namespace nibble::cpu
