// One row of a step: a token, its position, and its run, which has the page tables.
#pragma once

#include <vector>

#include "backend/draft_tree.h"
#include "model/batch.h"
#include "model/config.h"

namespace nibble::cpu {

struct BatchRow {
  TokenId token{0};
  int position{0};
  const Run* run{nullptr};
  // Slots of the last path.size() positions, the row's own included, in order (PlaceInRun in draft_tree.h).
  // Empty: the slot of every position is the position.
  std::vector<int> path{};

  int slot(int seen) const { return slot_of(seen, position, path); }
  const PageTableView& pages(LayerKind kind) const {
    return kind == LayerKind::kFull ? run->full : run->sliding;
  }
};
std::vector<BatchRow> rows_of(const Batch& batch);  // returns the rows of all runs, in order

}  // namespace nibble::cpu
