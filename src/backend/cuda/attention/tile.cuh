// Shared by both tiled attention kernels. A tile is up to 24 consecutive rows of one sequence and one
// key/value head; each of 12 warps has two of these rows. A warp's products have 16 rows: the (up to 8) query
// heads of its first row, then those of its second. In a lane, element [n][2 half + i] of the sums belongs to
// query head lane / 4 of the first (half 0) or second row, and to column 8 n + 2 (lane % 4) + i.
//
// Partial softmaxes are merged in the order of attend_rows(), and so to the same bits (page.cuh): each page
// starts from zero; a chunk's pages are merged in order, then chunks. A lane keeps the sums of a page and a
// chunk in registers, those of earlier chunks in shared memory, which it accesses once per 8 pages.
#pragma once

#include "backend/cuda/attention/args.h"
#include "backend/cuda/attention/page.cuh"
#include "backend/cuda/layout/activations.h"
#include "backend/cuda/pipeline/mailbox.cuh"

namespace nibble::cuda {

inline constexpr int kTileWarps{kTileRows / 2}, kTileThreads{32 * kTileWarps};  // the warps that multiply

// The outputs that a lane holds of both of its rows: one [4] for each of the 8 product tiles over D.
using Outputs = float[8][4];

// The partial softmax of a lane's two rows over the pages of a chunk.
struct TileSums {
  float reference[2]{-INFINITY, -INFINITY}, sum[2]{};
  Outputs outputs{};
};

// Merged partial softmax of earlier chunks: 16 outputs per thread and row in shared memory, rest in registers
class ChunkTotals {
  static constexpr int kOutputs{32};
  static_assert(kTileTotals == (kOutputs + 4) * kTileThreads);

 public:
  static constexpr size_t kBytes{kOutputs * sizeof(float) * kTileThreads};

  __device__ explicit ChunkTotals(uint8_t* memory)
      : memory_(reinterpret_cast<float*>(memory) + threadIdx.x) {}
  // Merges the chunk into the total of the lane's row `half`, and resets `chunk` for the next one.
  template <int half>
  __device__ void add(TileSums& chunk) {
    const Join join(reference_[half], chunk.reference[half]);
    sum_[half] = join(sum_[half], chunk.sum[half]);
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& total = memory_[((half * 8 + j) * 2 + c) * kTileThreads];
        total = join(reference_[half] == -INFINITY ? 0 : total, chunk.outputs[j][2 * half + c]);
        chunk.outputs[j][2 * half + c] = 0;
      }
    reference_[half] = join.reference;
    chunk.reference[half] = -INFINITY;
    chunk.sum[half] = 0;
  }
  // Merges the total of the lane's row `half` with `last`, its last chunk; the result is in `last`.
  template <int half>
  __device__ void finish(TileSums& last) const {
    if (reference_[half] == -INFINITY) return;  // the last chunk is the only one
    const Join join(reference_[half], last.reference[half]);
    last.reference[half] = join.reference;
    last.sum[half] = join(sum_[half], last.sum[half]);
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int c = 0; c < 2; ++c)
        last.outputs[j][2 * half + c] =
            join(memory_[((half * 8 + j) * 2 + c) * kTileThreads], last.outputs[j][2 * half + c]);
  }
  // send() passes totals to the CTA that continues the tile, in kTileTotals words that its receive() clears.
  __device__ void send(float* mailbox) const {
    float* const to = mailbox + threadIdx.x;
#pragma unroll
    for (int i = 0; i < kOutputs; ++i)
      store_relaxed(to + i * kTileThreads, as_word(memory_[i * kTileThreads]));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      store_relaxed(to + (kOutputs + half) * kTileThreads, as_word(reference_[half]));
      store_relaxed(to + (kOutputs + 2 + half) * kTileThreads, as_word(sum_[half]));
    }
  }
  __device__ void receive(float* mailbox) {
    float* const from = mailbox + threadIdx.x;
    float words[kOutputs + 4]{};
    for (bool have_all = false; !have_all;) {
      have_all = true;
#pragma unroll
      for (int i = 0; i < kOutputs + 4; ++i) reload(words[i], from + i * kTileThreads);
#pragma unroll
      for (const float word : words) have_all = have_all && has_arrived(word);
    }
#pragma unroll
    for (int i = 0; i < kOutputs + 4; ++i) from[i * kTileThreads] = 0;
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) memory_[i * kTileThreads] = words[i];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      reference_[half] = words[kOutputs + half];
      sum_[half] = words[kOutputs + 2 + half];
    }
  }

 private:
  float* memory_;
  float reference_[2]{-INFINITY, -INFINITY}, sum_[2]{};
};

// A tile for one key/value head, and the pages that its rows see.
struct Tile {
  const AttendTilesArgs& args;
  const TileInput rows;
  const int kv_head;
  const RowInput first_row;
  const int last_position, first_page, num_pages;

  __device__ Tile(const AttendTilesArgs& of, const TileInput& tile, int head)
      : args(of),
        rows(tile),
        kv_head(head),
        first_row(of.input.rows[tile.first_row]),
        last_position(first_row.position + tile.num_rows - 1),
        first_page(first_seen_by(first_row.position) / kPagePositions),
        num_pages(last_position / kPagePositions - first_page + 1) {}

  __device__ int first_seen_by(int position) const {  // first position that a row sees
    return args.window ? max(0, position - args.window + 1) : 0;
  }
};

// A lane's two rows. If the tile has fewer, missing ones repeat its last row and are not stored.
class TileLane {
 public:
  // `page`: the caller's first page, counted from the tile's first. A chunk of every row begins at this page.
  __device__ explicit TileLane(const Tile& tile, int page = 0) : tile_(tile) {
    if (has_head()) sink_ = tile.args.sinks[tile.kv_head * group_heads() + lane_ / 4] * kLog2E;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      position_[half] = tile.first_row.position + in_tile(half);
      first_[half] = tile.first_seen_by(position_[half]);
      end_of_chunk_[half] = end_if_not_last(half, first_[half] / kPagePositions + page + kChunkPages - 1);
    }
  }

  // Loads the lane's A registers of the four products q k. Each product covers 16 columns: 4 of each of four
  // adjacent pieces of 8, as in attend_rows(). in_order: these columns keep their order. Otherwise lane t
  // takes the columns of piece t, so that its B registers are contiguous in a key.
  template <bool in_order>
  __device__ void load_queries(uint32_t (&queries)[4][4]) const {
    const int t = lane_ % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        uint4 pieces[in_order ? 2 : 1]{};  // one piece is 8 columns, four pairs
#pragma unroll
        for (int i = 0; i < (in_order ? 2 : 1); ++i)
          if (has_head())
            pieces[i] =
                reinterpret_cast<const uint4*>(elements(half) + 32 * part)[in_order ? t / 2 + 2 * i : t];
        const auto set = [&](int product, int i, uint32_t pair) {
          queries[2 * part + product][2 * i + half] = pair;
        };
        if constexpr (in_order) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            set(0, i, t % 2 ? pieces[i].y : pieces[i].x);
            set(1, i, t % 2 ? pieces[i].w : pieces[i].z);
          }
        } else {
          set(0, 0, pieces[0].x), set(0, 1, pieces[0].y);
          set(1, 0, pieces[0].z), set(1, 1, pieces[0].w);
        }
      }
  }
  __device__ bool sees(int page) const {
    return 2 * warp_ < tile_.rows.num_rows && page * kPagePositions <= position_[1] &&
           page * kPagePositions + kPagePositions > first_[0];
  }
  // Sets scores of positions that a row does not see to -inf. On most pages both rows see all positions.
  __device__ void mask(int page, float (&scores)[4][4]) const {
    const int begin = page * kPagePositions;
    if (begin + kPagePositions - 1 <= position_[0] && begin >= first_[1]) return;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int c = 0; c < 4; ++c)
        if (const int at = begin + 8 * i + 2 * (lane_ % 4) + c % 2;
            at < first_[c / 2] || at > position_[c / 2])
          scores[i][c] = -INFINITY;
  }
  // Whether a chunk of the row ends with this page and another chunk follows. Chunks count from the first
  // page that the row sees. Call for pages in order.
  template <int half>
  __device__ bool ends_chunk(int page) {
    if (page != end_of_chunk_[half]) return false;
    end_of_chunk_[half] = end_if_not_last(half, page + kChunkPages);
    return true;
  }
  __device__ bool is_end_of_chunk(int page) const {  // for either row
    return page == end_of_chunk_[0] || page == end_of_chunk_[1];
  }
  // Applies the sink and overwrites the queries with the results.
  __device__ void store(const TileSums& sums) const {
    if (!has_head()) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (2 * warp_ + half >= tile_.rows.num_rows) continue;
      const SinkFactor finish(sums.reference[half], sums.sum[half], sink_);
      const auto pair = [&](int j) {
        const __nv_bfloat162 of_tile(finish(sums.outputs[j][2 * half]),
                                     finish(sums.outputs[j][2 * half + 1]));
        return reinterpret_cast<const uint32_t&>(of_tile);
      };
      // In an image (layout/activations.h), a lane's pairs of columns of four product tiles are contiguous.
      if (tile_.args.attended.image_rows) {
#pragma unroll
        for (int j = 0; j < 8; j += 4)
          *reinterpret_cast<uint4*>(elements(half) +
                                    place_in_cell(row(half), 8 * j + 2 * (lane_ % 4)) / 2) = {
              pair(j), pair(j + 1), pair(j + 2), pair(j + 3)};
      } else {
#pragma unroll
        for (int j = 0; j < 8; ++j) reinterpret_cast<uint32_t*>(elements(half))[4 * j + lane_ % 4] = pair(j);
      }
    }
  }

 private:
  __device__ int group_heads() const { return tile_.args.num_heads / tile_.args.num_kv_heads; }
  __device__ bool has_head() const { return lane_ / 4 < group_heads(); }
  // Returns `page`, the last page of a chunk, or -1 if no page follows it.
  __device__ int end_if_not_last(int half, int page) const {
    return page < position_[half] / kPagePositions ? page : -1;
  }
  __device__ int in_tile(int half) const { return min(2 * warp_ + half, tile_.rows.num_rows - 1); }
  __device__ int row(int half) const { return tile_.rows.first_row + in_tile(half); }
  __device__ __nv_bfloat16* elements(int half) const {
    return tile_.args.attended.data + first_of_tile(row(half), tile_.kv_head * group_heads() + lane_ / 4,
                                                    tile_.args.num_heads, tile_.args.attended.image_rows);
  }

  const Tile& tile_;
  const int warp_{static_cast<int>(threadIdx.x) / 32}, lane_{static_cast<int>(threadIdx.x) % 32};
  float sink_{0};  // loaded at the start, so that store() does not wait for it
  int position_[2], first_[2], end_of_chunk_[2];
};

}  // namespace nibble::cuda
