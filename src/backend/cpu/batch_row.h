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
  std::vector<int> path{};  // slots of the last positions up to the row's, if drafts branch (draft_tree.h)

  int slot(int seen) const { return slot_of(seen, position, path); }
  const PageTableView& pages(LayerKind kind) const {
    return kind == LayerKind::kFull ? run->full : run->sliding;
  }
};
std::vector<BatchRow> rows_of(const Batch& batch);  // returns the rows of all runs, in order

}  // namespace nibble::cpu
