// One row of a step: a token, its position, and its run, which has the page tables.
#pragma once

#include <vector>

#include "model/batch.h"
#include "model/config.h"

namespace nibble::cpu {

struct BatchRow {
  TokenId token{0};
  int position{0};
  const Run* run{nullptr};

  const PageTableView& pages(LayerKind kind) const {
    return kind == LayerKind::kFull ? run->full : run->sliding;
  }
};
std::vector<BatchRow> rows_of(const Batch& batch);  // runs in order

}  // namespace nibble::cpu
