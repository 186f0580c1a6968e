// Prefetches the KV cache pages that the attention after qkv() will read (PagesAhead in attention/args.h).
#pragma once

#include "backend/cuda/attention/args.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/pipeline/stream.cuh"
#include "backend/cuda/ptx/copy.cuh"

namespace nibble::cuda {

// Each of the launch's first threads prefetches one page of a row. The last pages of all rows come first, as
// attention reads them first. The loads that find the page are issued in two calls, read_row() and read_id(),
// each before a point at which the thread waits for other data anyway.
class PageAhead {
 public:
  __device__ PageAhead(const PagesAhead& ahead, int num_rows) : ahead_(ahead), num_rows_(num_rows) {}

  // If this thread has a page to prefetch, loads the row's position and the index of the row's page ids.
  __device__ void read_row() {
    if (from_last() >= ahead_.max_pages) return;
    const RowInput& row = ahead_.input.rows[own() - from_last() * num_rows_];
    position_ = row.position;
    id_ = row.full_pages;
  }
  // Loads the page's id. Skips rows whose position is in the first chunk: attention requests all pages of one
  // chunk at the same time, so a prefetch would save little.
  __device__ void read_id() {
    const int page = position_ / kPagePositions - from_last();
    id_ = position_ >= kChunkPages * kPagePositions && page >= 0
              ? ahead_.input.page_ids[id_ + static_cast<uint32_t>(page)]
              : kNone;
  }
  __device__ void prefetch() const {
    if (id_ != kNone)
      bulk_prefetch(static_cast<const uint8_t*>(ahead_.pages.data) + size_t{id_} * ahead_.page_bytes,
                    ahead_.page_bytes);
  }

 private:
  static constexpr uint32_t kNone{~0u};
  static __device__ int own() { return static_cast<int>(threadIdx.x * gridDim.x + blockIdx.x); }
  __device__ int from_last() const { return divide(own(), num_rows_); }

  const PagesAhead& ahead_;
  const int num_rows_;
  int position_{0};
  uint32_t id_{kNone};  // after read_row(), index of the row's first page id; after read_id(), the page's id
};

}  // namespace nibble::cuda
