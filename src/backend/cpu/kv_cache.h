// Keys and values of all layers, in BF16 or FP8, in pages of kPageTokens positions:
//   layer [page] [keys, values] [kv head] [position in the page] [D]
// The keys of one head in one page are the rows of a matrix, so attention can use the dot kernels of linear
// layers. FP8 means E4M3 without a scale: float32 is rounded to it and saturates at 448.
#pragma once

#include <cstddef>
#include <vector>

#include "core/tensors/buffer.h"
#include "model/batch.h"
#include "model/config.h"
#include "model/weights.h"

namespace nibble::cpu {

// The pages of one layer. `position` means a slot if the drafts of a sequence branch (backend/draft_tree.h).
struct LayerKv {
  LayerKind kind{LayerKind::kFull};
  Format format{Format::kBf16};  // kBf16 or kE4m3
  std::byte* data{nullptr};
  int num_pages{0}, num_kv_heads{0}, head_dim{0};

  // Return the keys or values [kPageTokens, D] of the page that holds `position`.
  std::byte* keys(const PageTableView& pages, int position, int kv_head) const {
    return at(pages, position, kv_head, 0);
  }
  std::byte* values(const PageTableView& pages, int position, int kv_head) const {
    return at(pages, position, kv_head, 1);
  }
  // Rounds a row of D elements and stores it at `position` of `page`, a result of keys() or values().
  void store(const float* row, std::byte* page, int position) const;
  size_t row_bytes() const { return num_bytes(format, static_cast<size_t>(head_dim)); }

 private:
  std::byte* at(const PageTableView& pages, int position, int kv_head, int which) const;
};

class KvCache {
 public:
  KvCache(const Config& config, Format format, int num_pages);
  const LayerKv& layer(size_t index) const { return layers_[index]; }
  // Copies the keys and values of slot `from` of the run's sequence to slot `to`, in all layers.
  void move(const Run& run, int from, int to) const;

  static size_t num_bytes(const Config& config, Format format, int num_pages);

 private:
  Buffer storage_;  // a page takes no memory until it is first written
  std::vector<LayerKv> layers_;
};

}  // namespace nibble::cpu
