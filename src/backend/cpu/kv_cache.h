// Keys and values of all layers in BF16, in pages of kPageTokens positions:
//
//   layer [page] [keys, values] [kv head] [position in the page] [D]
//
// so that the keys of one head on one page are the rows of a matrix, and attention is the same dot kernel as a linear layer.
#pragma once

#include <vector>

#include "core/bf16.h"
#include "core/buffer.h"
#include "model/batch.h"
#include "model/config.h"

namespace nibble::cpu {

// The pages of one layer.
struct LayerKv {
  LayerKind kind{LayerKind::kFull};
  Bf16* data{nullptr};
  int num_pages{0}, num_kv_heads{0}, head_dim{0};

  // [kPageTokens, D] of the page that holds `position`.
  Bf16* keys(const PageTableView& pages, int position, int kv_head) const {
    return at(pages, position, kv_head, 0);
  }
  Bf16* values(const PageTableView& pages, int position, int kv_head) const {
    return at(pages, position, kv_head, 1);
  }

 private:
  Bf16* at(const PageTableView& pages, int position, int kv_head, int which) const;
};

class KvCache {
 public:
  KvCache(const Config& config, int num_full_pages, int num_sliding_pages);
  const LayerKv& layer(size_t index) const { return layers_[index]; }

  static size_t num_bytes(const Config& config, int num_full_pages, int num_sliding_pages);

 private:
  Buffer storage_;  // untouched until written: pages that no sequence has used yet take no memory
  std::vector<LayerKv> layers_;
};

}  // namespace nibble::cpu
