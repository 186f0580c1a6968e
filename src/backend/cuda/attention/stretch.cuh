// Divides a launch's tiles evenly among its CTAs if there are more tiles than CTAs. The tiles of all heads,
// head by head, form one list, which is cut into one stretch per CTA. All stretches cost about the same,
// where the cost is the number of pages, plus kTileCost per tile. A stretch may begin and end inside a tile,
// but only between chunks: the CTA with the tile's first pages sends its totals to the next CTA
// (TileSums::send()). So sums are added in the same order as in a tile that is not cut.
//
// A CTA processes the tiles of its stretch last to first (McNaughton 1959). It begins with the tile whose
// totals the next CTA needs, and ends with the tile that continues the previous CTA's totals. By then those
// totals have arrived, unless one tile is longer than a stretch. A CTA waits only for the previous CTA, which
// started earlier, so there is no deadlock.
//
// With one CTA per tile, 688 tiles would take 5.2 waves of 132 CTAs, which last as long as 6 waves.
#pragma once

#include <cub/block/block_scan.cuh>

#include "backend/cuda/attention/args.h"
#include "backend/cuda/attention/tile.cuh"

namespace nibble::cuda {

// A position at which the list of tiles is cut, so that several CTAs share it: after the first `pages` pages
// of tile number `tile`. Tiles are numbered over all heads.
struct TileCut {
  int tile{0}, pages{0};
};

struct TileStretch {
  TileCut begin, end;
};

// Returns the stretch of this CTA. All threads of the CTA must call it.
template <int threads>
__device__ TileStretch stretch_of_cta(const AttendTilesArgs& args, int num_tiles) {
  // Fixed cost of a tile, for queries, outputs and the latency of the first page. The unit is the cost of one
  // page; docs/decisions/0014 has the measurement.
  constexpr int kTileCost{12};
  const int cta = static_cast<int>(blockIdx.x), num_ctas = static_cast<int>(gridDim.x);
  if (num_ctas == num_tiles * args.num_kv_heads) return {{cta, 0}, {cta + 1, 0}};

  using Scan = cub::BlockScan<int, threads>;
  __shared__ typename Scan::TempStorage scan;
  __shared__ TileStretch stretch;
  const int of_thread = (num_tiles + threads - 1) / threads,
            first = static_cast<int>(threadIdx.x) * of_thread, end = min(first + of_thread, num_tiles);
  const auto cost_of = [&](int tile) { return Tile(args, args.input.tiles[tile], 0).num_pages + kTileCost; };
  int cost = 0, before, of_head;
  for (int tile = first; tile < end; ++tile) cost += cost_of(tile);
  Scan(scan).ExclusiveSum(cost, before, of_head);
  // A part of a tile must have at least one page, so two cuts in the same tile must differ. They do if a
  // stretch costs at least two chunks plus kTileCost: it then contains at least two chunks of pages, even if
  // it also pays the fixed cost of the tile. Each cut is then moved back by less than two chunks: to the end
  // of a chunk and, near the end of the tile, to last_end.
  const int of_cta =
      max((of_head * args.num_kv_heads + num_ctas - 1) / num_ctas, 2 * kChunkPages + kTileCost);
  for (int i = 0; i < 2; ++i) {
    TileCut& cut = i ? stretch.end : stretch.begin;
    const int at = (cta + i) * of_cta, head = at / of_head, in_head = at % of_head;
    if (head >= args.num_kv_heads) {
      if (threadIdx.x == 0) cut = {args.num_kv_heads * num_tiles, 0};
      continue;
    }
    int begin = before;
    for (int tile = first; tile < end; ++tile) {
      const int next = begin + cost_of(tile);
      if (begin <= in_head && in_head < next) {
        // A cut in a tile is at or before the page that holds the position of the tile's first row, so every
        // row sees a page after the cut. Tiles of layers with a window are not cut.
        const int last_end =
            args.window ? 0 : args.input.rows[args.input.tiles[tile].first_row].position / kPagePositions;
        cut = {head * num_tiles + tile,
               min(max(in_head - begin - kTileCost, 0), last_end) / kChunkPages * kChunkPages};
      }
      begin = next;
    }
  }
  __syncthreads();
  return stretch;
}

}  // namespace nibble::cuda
