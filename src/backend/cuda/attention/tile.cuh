// Code shared by both tiled attention kernels (tiles.cu, wgmma_tiles.cu). A tile is up to 24 consecutive rows
// of one sequence, for one key/value head. Each of 12 warps handles two rows of the tile. A warp's mma have
// 16 rows (in wgmma_tiles.cu, 16 of the 64 rows of a wgmma): the upper 8 are the (up to 8) query heads of the
// warp's first row, the lower 8 those of its second row. Of the results, a lane holds sums[n][2 * half + i]:
// head g of the warp's first row (half = 0) or second row (half = 1), in column 8 n + 2 t + i, where g =
// lane / 4 and t = lane % 4.
//
// Sums are added in the same order as in attend_rows(), so the results have the same bits (page.cuh): the
// pages of a chunk in one chain of mma, then the chunks in order.
#pragma once

#include "backend/cuda/attention/args.h"
#include "backend/cuda/attention/page.cuh"
#include "backend/cuda/layout/activations.h"
#include "backend/cuda/pipeline/mailbox.cuh"

namespace nibble::cuda {

// These constants count only the warps that multiply; wgmma_tiles.cu adds warps that load.
inline constexpr int kTileWarps{kTileRows / 2}, kTileThreads{32 * kTileWarps};

// The partial softmax of a lane's two rows: sums of the current chunk, and totals of all earlier chunks. Sums
// and totals are of exponentials 2^(score - R), where R is the row's largest softmax reference so far, so a
// chunk is added to the totals without rescaling. The two rows of a lane belong to the same head, so they
// start with the same R.
class TileSums {
 public:
  // chunk[n] for n < 8: sums of output columns 8 n to 8 n + 7. chunk[8]: sums of the exponentials, in
  // element 0 for the first row and element 2 for the second.
  float chunk[9][4]{};

  __device__ explicit TileSums(float of_head) : reference_{of_head, of_head} {}
  __device__ float reference(int half) const { return reference_[half]; }
  // Raises the softmax reference of row `half` to `reference` if `reference` is larger, and rescales the
  // chunk's sums. Returns the factors (Join) by which the caller must multiply the row's totals
  // (Join::before) and exponentials relative to `reference` (Join::more).
  template <int half>
  __device__ Join raise(float reference) {
    const Join join(reference_[half], reference);
    reference_[half] = join.reference;
    for_sums<half>([&](float& of_chunk, float&) { of_chunk *= join.before; });
    return join;
  }
  template <int half>
  __device__ void scale_total(float factor) {
    for_sums<half>([&](float&, float& total) { total *= factor; });
  }
  // put_aside() stores the totals in shared memory, [kAside, kTileThreads], to free their registers.
  // take_back() loads the totals and multiplies those of row `half` by factors[half]. `memory`: address of
  // the calling thread's first word.
  static constexpr int kAside{34};
  __device__ void put_aside(float* memory) {
    int i = 0;
    const auto put = [&](float&, float& total) { memory[i++ * kTileThreads] = total; };
    for_sums<0>(put);
    for_sums<1>(put);
  }
  __device__ void take_back(const float* memory, const float (&factors)[2]) {
    int i = 0;
    for_sums<0>([&](float&, float& total) { total = memory[i++ * kTileThreads] * factors[0]; });
    for_sums<1>([&](float&, float& total) { total = memory[i++ * kTileThreads] * factors[1]; });
  }
  // Adds the chunk's sums of row `half` to the total, and starts the next chunk at zero.
  template <int half>
  __device__ void end_chunk() {
    for_sums<half>([](float& of_chunk, float& total) {
      total += of_chunk;
      of_chunk = from_here(0.0f);  // from_here() avoids a copy from a uniform register
    });
  }
  __device__ void end_chunk() {
    end_chunk<0>();
    end_chunk<1>();
  }
  // sum() and output() return the totals of row `half`. Call them after end_chunk() for the last chunk.
  __device__ float sum(int half) const { return total_[8][2 * half]; }
  __device__ float output(int half, int tile, int i) const { return total_[tile][2 * half + i]; }

  // send() stores the totals and the softmax references in a mailbox of kTileTotals words. The CTA that
  // continues the tile calls receive(), which waits for the words, takes them, and zeros the mailbox.
  __device__ void send(float* mailbox) {
    float* const to = mailbox + threadIdx.x;
    for_words([&](float& word, int i) { store_relaxed(to + i * kTileThreads, as_word(word)); });
  }
  __device__ void receive(float* mailbox) {
    float* const from = mailbox + threadIdx.x;
    for_words([](float& word, int) { word = 0; });
    for (bool have_all = false; !have_all;) {
      have_all = true;
      for_words([&](float& word, int i) { reload(word, from + i * kTileThreads); });
      for_words([&](float& word, int) { have_all = have_all && has_arrived(word); });
    }
    for_words([&](float&, int i) { from[i * kTileThreads] = 0; });
  }

 private:
  // Calls f(sum of the current chunk, total) for each sum of row `half`.
  template <int half, typename F>
  __device__ void for_sums(const F& f) {
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int c = 2 * half; c < 2 * half + 2; ++c) f(chunk[j][c], total_[j][c]);
    f(chunk[8][2 * half], total_[8][2 * half]);
  }
  // Calls f(word, index of the word in the mailbox) for each word that send() and receive() pass on.
  template <typename F>
  __device__ void for_words(const F& f) {
    static_assert(kTileTotals == 36 * kTileThreads);
#pragma unroll
    for (int i = 0; i < 32; ++i) f(total_[i / 4][i % 4], i);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      f(total_[8][2 * half], 32 + half);
      f(reference_[half], 34 + half);
    }
  }

  float total_[9][4]{}, reference_[2];
};

// A tile for one key/value head, and the pages that any of the tile's rows sees.
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

  // Returns the first position that a row at `position` sees.
  __device__ int first_seen_by(int position) const {
    return args.window ? max(0, position - args.window + 1) : 0;
  }
};

// A lane's two rows of a tile: index in the step, position, and first position that the row sees. If the
// tile has fewer than kTileRows rows, the missing rows repeat the tile's last row, and their results are not
// stored.
class TileLane {
 public:
  // `page`: number of the tile's pages before the first page that this CTA processes, a multiple of
  // kChunkPages.
  __device__ explicit TileLane(const Tile& tile, int page = 0) : tile_(tile) {
    if (has_head()) sink_ = tile.args.sinks[tile.kv_head * group_heads() + lane_ / 4] * kLog2E;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      position_[half] = tile.first_row.position + in_tile(half);
      first_[half] = tile.first_seen_by(position_[half]);
      end_of_chunk_[half] = end_if_not_last(half, first_[half] / kPagePositions + page + kChunkPages - 1);
    }
  }

  // Loads the lane's A registers for the four mma (or wgmma) that multiply queries and keys. Each sums over
  // 16 columns of a head. These 16 columns are, as in attend_rows(), the first or the last 4 columns of each
  // of four adjacent pieces of 8 columns. `in_order`: whether the mma takes the 16 columns in ascending
  // order. If not, lane t (= lane % 4) takes the columns of piece t, so that the lane's B registers are
  // contiguous in a key.
  template <bool in_order>
  __device__ void load_queries(uint32_t (&queries)[4][4]) const {
    const int t = lane_ % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        uint4 pieces[in_order ? 2 : 1]{};  // a piece is four registers, each a pair of columns
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
  // Returns whether any row of the warp sees a position of the page.
  __device__ bool sees(int page) const {
    return 2 * warp_ < tile_.rows.num_rows && page * kPagePositions <= position_[1] &&
           page * kPagePositions + kPagePositions > first_[0];
  }
  // Sets the scores of positions that a row does not see to -inf. `begin`: position of the first score. Does
  // nothing if both rows of the lane see all these positions, as on most pages.
  template <int tiles>
  __device__ void mask(int begin, float (&scores)[tiles][4]) const {
    const bool sees_all = begin + 8 * tiles - 1 <= position_[0] && begin >= first_[1];
    if (__builtin_expect(sees_all, true)) return;
#pragma unroll
    for (int i = 0; i < tiles; ++i)
#pragma unroll
      for (int c = 0; c < 4; ++c)
        if (const int at = begin + 8 * i + 2 * (lane_ % 4) + c % 2;
            at < first_[c / 2] || at > position_[c / 2])
          scores[i][c] = -INFINITY;
  }
  __device__ float reference_of_head() const { return head_reference(sink_); }
  // Returns whether `page` ends a chunk of the lane's row `half`, other than the row's last chunk. Call it
  // for the pages that the row sees, in order. A row's chunks are counted from its first page.
  template <int half>
  __device__ bool ends_chunk(int page) {
    if (page != end_of_chunk_[half]) return false;
    end_of_chunk_[half] = end_if_not_last(half, page + kChunkPages);
    return true;
  }
  // Applies the sink to the totals, and overwrites the rows' queries with the results.
  __device__ void store(const TileSums& sums) const {
    if (!has_head()) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (2 * warp_ + half >= tile_.rows.num_rows) continue;
      const SinkFactor finish(sums.reference(half), sums.sum(half), sink_);
      const auto pair = [&](int j) {
        const __nv_bfloat162 of_tile(finish(sums.output(half, j, 0)), finish(sums.output(half, j, 1)));
        return reinterpret_cast<const uint32_t&>(of_tile);
      };
      // In an image (layout/activations.h), the lane's pairs j to j + 3 are contiguous (16 bytes).
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
  // `page`: the last page of a chunk of the lane's row number `half` (0 or 1). Returns `page`, or -1 if the
  // row's last page is in this chunk: ends_chunk() does not report the end of a row's last chunk.
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
  float sink_{0};  // the head's sink times log2(e); loaded early, so that store() does not wait for it
  int position_[2], first_[2], end_of_chunk_[2];
};

}  // namespace nibble::cuda
