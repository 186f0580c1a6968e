// Launch functions of attention. Each kernel waits for the results of earlier kernels itself (pdl.cuh).
// Dimensions: T tokens, D = 64 elements per head, Nq query heads, Nkv key/value heads. Activations are
// bfloat16, sums are float32.
#pragma once

#include "backend/cuda/chip/target.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/layout/activations.h"

namespace nibble::cuda {

// Element format of the KV cache. kE4m3 is FP8 without scales: each element is rounded to the nearest code
// (ties to even), and limited to +-448.
enum class KvFormat { kBf16, kE4m3 };
struct LayerPages {
  void* data;      // [page, 2 (keys, values), Nkv, 32 positions, D]
  int is_sliding;  // 1: a sliding-window layer, whose page ids begin at RowInput::sliding_pages
  KvFormat format;
};

// KV cache pages that the attention kernel after qkv() will read. qkv() prefetches them to L2 once its own
// weights have arrived. Without the prefetch, memory would idle until the attention kernel has started and
// found its pages.
struct PagesAhead {
  StepInput input{};
  LayerPages pages{};
  int page_bytes{0};
  int max_pages{0};  // qkv() prefetches at most this number of pages per row, the row's last ones; 0: none
};

struct RopeInput {
  const float* frequencies;  // [D / 2]: for elements i and i + D / 2 of a head, radians per position
  float concentration;
};

// append() writes rope(k) and v of each row to the row's KV cache slot (StepInput), except for rows with slot
// -1. A layer of the model runs it only in steps in which rows of one sequence attend to each other; in other
// steps attend_rows() writes k and v. The draft head also runs it, for its own cache; `parts` then has only k
// and v (num_heads = 0).
struct AppendArgs {
  StepInput input;
  const float* parts;  // result of qkv(): q, k and v of each row
  bool has_rest;       // whether each sum in `parts` is stored in two parts, to be added (dense/args.h)
  int num_tokens, num_heads, num_kv_heads;
  RopeInput rope;
  LayerPages pages;
  // [T, Nq D], output: the queries for tiled attention, rope(q) * log2(e) / 8; null: append() writes none. In
  // an image (layout/activations.h), each cell (64 columns of a row) has its columns in order, not swizzled.
  Activations queries;
};
void append(const LaunchContext& gpu, const AppendArgs& args);

// attend_rows() computes attention row by row: out = softmax(rope(q) k / 8, sink) v. A row attends to the
// positions up to its own, within the layer's window if the layer has one. In a draft tree, a row attends to
// the positions on its path (RowPath).
struct AttendArgs {
  StepInput input;
  const float* parts;  // result of qkv(): q, k and v of each row
  bool has_rest;       // whether each sum in `parts` is stored in two parts, to be added (dense/args.h)
  int num_tokens, num_heads, num_kv_heads;
  RopeInput rope;
  LayerPages pages;
  int window;          // number of positions that a row sees, its own included; 0: no limit
  const float* sinks;  // [Nq]: the logit of each query head's sink
  // Whether attend_rows() also writes the rows' k and v to the cache. If so, all rows of the step must be of
  // different sequences.
  int writes_kv;
  // first_row: index in the step of the launch's first row; max_chunks: number of chunks of the longest row
  int first_row, max_chunks;
  // [rows of the launch, Nkv, max_chunks, kPartialFloats], scratch: a partial softmax per chunk
  float* partials;
  unsigned* tickets;  // [rows of the launch, Nkv]: CTAs that have finished their chunks; 0 between launches
  Activations out;    // [T, Nq D]: the result
  // [mailbox_partials, kPartialFloats]: partial softmaxes that CTAs of a launch exchange. The words are zero
  // between launches.
  float* mailbox{nullptr};
  int mailbox_partials{0};
};
inline constexpr int kChunkPages{8};     // pages per chunk; a chunk has 256 positions
inline constexpr int kMaxChunks{512};    // largest number of chunks of a row: 131,072 positions
inline constexpr int kMaxGroupHeads{8};  // largest number of query heads per key/value head
// Number of floats in a chunk's partial softmax. Each head has 64 outputs, the softmax reference that its
// exponentials are relative to (page.cuh), and the sum of exponentials.
inline constexpr int kPartialFloats{kMaxGroupHeads * (64 + 2)};
void attend_rows(const LaunchContext& gpu, int num_rows, const AttendArgs& args);

// Smallest number of rows of a run (adjacent rows of one sequence) whose attention is computed in tiles.
// Shorter runs use attend_rows().
inline constexpr int kMinTiledRows{32};

// attend_tiles() and attend_wgmma() compute attention in tiles, after append(): up to kTileRows consecutive
// rows of one sequence share each load of K and V.
struct AttendTilesArgs {
  StepInput input;
  int num_heads, num_kv_heads;
  LayerPages pages;
  int window;            // number of positions that a row sees, its own included; 0: no limit
  const float* sinks;    // [Nq]: the logit of each query head's sink
  Activations attended;  // [T, Nq D]: input: the queries from append(); output: the result
  // [kMostTileCtas, kTileTotals]: sums of an unfinished tile, which one CTA leaves for the CTA that continues
  // the tile (stretch.cuh). The words are zero between launches.
  float* mailbox{nullptr};
};
inline constexpr int kMostTileCtas{144};  // largest number of CTAs of attend_wgmma(): the SMs of a full GH100
inline constexpr int kTileTotals{kTileRows / 2 * 32 * 36};  // floats that a CTA passes on: 36 per thread
void attend_tiles(const LaunchContext& gpu, int num_tiles, const AttendTilesArgs& args);
void attend_wgmma(const LaunchContext& gpu, int num_tiles, const AttendTilesArgs& args);

// Both functions return the bytes of dynamic shared memory that one CTA of the kernel needs.
size_t attend_tiles_shared_bytes();
size_t attend_wgmma_shared_bytes();

void prepare_append();
void prepare_attend_rows();
void prepare_attend_tiles();
void prepare_attend_wgmma();

}  // namespace nibble::cuda
