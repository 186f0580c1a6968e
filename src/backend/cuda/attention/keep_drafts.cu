// Moves K and V of the accepted drafts of a tree to the cache slots of their positions, where later steps
// read them. A key needs no change when it moves, because it was rotated by its position, not by its slot. So
// later steps read the same bits as if the drafts had been a chain (drafts without branches).
#include "backend/cuda/attention/args.h"
#include "backend/cuda/attention/keep_drafts.h"
#include "backend/cuda/attention/page.cuh"

namespace nibble::cuda {
namespace {

constexpr int kKeepThreads{256};

// Shared memory of a CTA: up to kKeepThreads drafts of a run (adjacent rows of one sequence), which the CTA
// examines at once, and the moves of the drafts that are accepted.
struct KeptTile {
  int parents[kKeepThreads];  // result of parent_of_row() for each draft (input/draft_slots.h)
  bool fit[kKeepThreads];     // result of fits() for each draft (input/draft_slots.h)
  int right[kKeepThreads];    // indices of the accepted drafts among the run's rows
  // Source and destination of each accepted draft's move: indices of keys ([D] elements each) in a layer's
  // cache.
  uint2 moves[kKeepThreads];
  int num_right, last;
};

// Moves K and V of `num_moves` drafts for all heads. A thread moves the same 16 bytes of every draft. The
// thread may read kAhead drafts before it writes the first of them: drafts are ordered by slot, and each
// draft moves to its own slot or an earlier one, so no write overwrites a draft that is still to be read.
__device__ void move_rows(void* cache, int num_kv_heads, int row_bytes, const uint2* moves, int num_moves) {
  constexpr int kAhead{4};
  const int row_quads = row_bytes / 16;
  for (int i = static_cast<int>(threadIdx.x); i < 2 * num_kv_heads * row_quads; i += kKeepThreads) {
    auto* const quads =
        static_cast<uint4*>(cache) + size_t{1} * (i / row_quads) * kPagePositions * row_quads + i % row_quads;
    for (int first = 0; first < num_moves; first += kAhead) {
      uint4 read[kAhead];
#pragma unroll
      for (int n = 0; n < kAhead; ++n)
        if (first + n < num_moves) read[n] = quads[size_t{moves[first + n].x} * row_quads];
#pragma unroll
      for (int n = 0; n < kAhead; ++n)
        if (first + n < num_moves) quads[size_t{moves[first + n].y} * row_quads] = read[n];
    }
  }
}

// Each CTA handles one run in one layer, and finds the run's accepted drafts itself.
__global__ void __launch_bounds__(kKeepThreads)
    keep_drafts_kernel(const __grid_constant__ KeepDraftsArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  __shared__ KeptTile tile;
  wait_for_predecessor(timestamps);
  let_successor_start();
  const DraftRun run = args.runs[blockIdx.x];
  if (!run.is_tree) return;
  const LayerPages pages = args.layers[blockIdx.y];
  int32_t* const kept = args.exchange.kept[*args.step % 2] + run.first_row;
  const bool tells = blockIdx.y == 0;
  const int thread = static_cast<int>(threadIdx.x), last_known = run.num_rows - 1 - run.num_drafted;
  if (thread == 0) tile.last = last_known;
  for (int first = last_known + 1; first < run.num_rows; first += kKeepThreads) {
    const int end = min(first + kKeepThreads, run.num_rows);
    if (const int row = first + thread; row < end) {
      tile.parents[thread] = parent_of_row(run, args.choices, row);
      tile.fit[thread] = fits(run, args.choices, row);
    }
    __syncthreads();
    if (thread == 0) {
      int num_right = 0, before = tile.last;
      tile.last = for_right_drafts(
          {before, first, end}, [&](int row) { return tile.parents[row - first]; },
          [&](int row) { return tile.fit[row - first]; },
          [&](int row) {
            tile.right[num_right++] = row;
            if (tells) kept[before] = row;
            before = row;
          });
      tile.num_right = num_right;
    }
    __syncthreads();
    if (thread < tile.num_right) {
      const int row_index = run.first_row + tile.right[thread];
      const RowInput row = args.input.rows[row_index];
      const auto place_of = [&](int slot) {
        return 2 * page_id(pages, args.input, row, slot / kPagePositions) *
                   static_cast<uint32_t>(args.num_kv_heads) * kPagePositions +
               static_cast<uint32_t>(slot % kPagePositions);
      };
      tile.moves[thread] = {place_of(args.input.slots[row_index]), place_of(row.position)};
    }
    __syncthreads();
    int first_move = 0;  // number of leading drafts that already are in the slots of their positions
    while (first_move < tile.num_right && tile.moves[first_move].x == tile.moves[first_move].y) ++first_move;
    const int row_bytes = kHeadDim * (pages.format == KvFormat::kBf16 ? 2 : 1);
    move_rows(pages.data, args.num_kv_heads, row_bytes, tile.moves + first_move, tile.num_right - first_move);
    __syncthreads();
  }
  if (tells && thread == 0) kept[tile.last] = -1;
}

}  // namespace

void prepare_keep_drafts() { prefer_shared_memory(keep_drafts_kernel); }

void keep_drafts(const LaunchContext& gpu, int num_runs, int num_layers, const KeepDraftsArgs& args) {
  launch(gpu, {Operation::kAppend, "keep_drafts"}, keep_drafts_kernel,
         {dim3(static_cast<unsigned>(num_runs), static_cast<unsigned>(num_layers)), kKeepThreads}, args);
}

}  // namespace nibble::cuda
