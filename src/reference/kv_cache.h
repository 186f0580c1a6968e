// Keys and values of all layers in float32 pages, and the rows of a batch with their page tables.
#pragma once

#include <optional>
#include <vector>

#include "core/tensors/buffer.h"
#include "core/tensors/view.h"
#include "model/batch.h"
#include "model/config.h"

namespace nibble::reference {

struct BatchRow {
  TokenId token{0};
  int position{0};
  PageTableView full{}, sliding{};
  // Slots of the last path.size() positions, the row's own included, if drafts branch (draft_tree.h); else
  // empty.
  std::vector<int> path{};
  std::optional<AdapterId> adapter{};
};
std::vector<BatchRow> rows_of(const Batch& batch);  // rows of all runs, in order

struct LayerKv {
  LayerKind kind{LayerKind::kFull};
  View<float, 4> keys, values;  // [page, kv head, position in the page, D]

  // Return the D elements at `position` of the row's sequence. If drafts branch, several slots have the same
  // position; the slot on the row's own path is used.
  float* key(const BatchRow& row, int kv_head, int position) const {
    return at(keys, row, kv_head, position);
  }
  float* value(const BatchRow& row, int kv_head, int position) const {
    return at(values, row, kv_head, position);
  }

 private:
  float* at(const View<float, 4>& pages, const BatchRow& row, int kv_head, int position) const;
};

class KvCache {
 public:
  KvCache(const Config& config, int num_pages);
  const LayerKv& layer(size_t index) const { return layers_[index]; }
  // Copies slot `from` of the run's sequence to slot `to`, in all layers.
  void move(const Run& run, int from, int to) const;

  static size_t num_bytes(const Config& config, int num_pages);

 private:
  Buffer storage_;
  std::vector<LayerKv> layers_;
};

}  // namespace nibble::reference
