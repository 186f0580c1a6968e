// Launch functions of attention. Each kernel waits for the kernels before it (pdl.cuh). Dimensions: T tokens,
// D = 64 elements per head, Nq query heads, Nkv key/value heads. Activations are bfloat16, sums float32.
#pragma once

#include "backend/cuda/chip/target.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/layout/activations.h"

namespace nibble::cuda {

// kE4m3: each element is rounded to the nearest code (ties to even), saturated at 448, and has no scale.
enum class KvFormat { kBf16, kE4m3 };
struct LayerPages {
  void* data;      // [page, keys and values, Nkv, 32, D]
  int is_sliding;  // whether rows use their page table for sliding layers
  KvFormat format;
};

// KV cache pages that the attention after qkv() will read. qkv() prefetches them to L2 once its own weights
// have arrived. Otherwise memory would idle until attention has started and found its pages.
struct PagesAhead {
  StepInput input{};
  LayerPages pages{};
  int page_bytes{0};
  int max_pages{0};  // most pages to prefetch per row, last page first; 0: none
};

struct RopeInput {
  const float* frequencies;  // [D / 2]
  float concentration;
};

// append() writes rope(k) and v of every row to its KV cache slot (StepInput). It runs in steps in which rows
// of one sequence see each other; in other steps attend_rows() writes k and v.
struct AppendArgs {
  StepInput input;
  const float* parts;  // result of qkv()
  bool has_rest;       // whether `parts` holds two partial sums to add
  int num_tokens, num_heads, num_kv_heads;
  RopeInput rope;
  LayerPages pages;
  // Output [T, Nq D] or null: rope(q) log2(e) / 8 for attend_tiles(). An image keeps the order of columns.
  Activations queries;
};
void append(const LaunchContext& gpu, const AppendArgs& args);

// Attention of single rows: out = softmax(rope(q) k / 8, sink) v. A row sees the positions up to its own or,
// in a draft tree, the positions of its path (RowPath).
struct AttendArgs {
  StepInput input;
  const float* parts;  // result of qkv()
  bool has_rest;       // whether `parts` holds two partial sums to add
  int num_tokens, num_heads, num_kv_heads;
  RopeInput rope;
  LayerPages pages;
  int window;          // 0: no window
  const float* sinks;  // [Nq]
  // Whether attend_rows() also writes the rows' k and v. If so, no two rows may be of one sequence.
  int writes_kv;
  int first_row, max_chunks;
  float* partials;    // [rows of the launch, Nkv, max_chunks, kPartialFloats]: a partial softmax per chunk
  unsigned* tickets;  // [rows of the launch, Nkv]: number of finished CTAs; zero between launches
  Activations out;    // [T, Nq D]
  // [mailbox_partials, kPartialFloats]: partial softmaxes that CTAs exchange. Zero between launches.
  float* mailbox{nullptr};
  int mailbox_partials{0};
};
inline constexpr int kChunkPages{8};   // 256 positions
inline constexpr int kMaxChunks{512};  // per row: 131,072 positions
inline constexpr int kMaxGroupHeads{8};
inline constexpr int kPartialFloats{kMaxGroupHeads * (64 + 2)};
void attend_rows(const LaunchContext& gpu, int num_rows, const AttendArgs& args);

// Fewest rows of a sequence that are computed in tiles. Shorter runs of rows use attend_rows().
inline constexpr int kMinTiledRows{32};

// Attention in tiles, after append(): consecutive rows of one sequence share the K and V that are loaded.
struct AttendTilesArgs {
  StepInput input;
  int num_heads, num_kv_heads;
  LayerPages pages;
  int window;            // 0: no window
  const float* sinks;    // [Nq]
  Activations attended;  // [T, Nq D]: on input the queries from append(), on output the result
  // [kMostTileCtas, kTileTotals]: sums of a tile, which a CTA leaves for the next one. Zero between launches.
  float* mailbox{nullptr};
};
inline constexpr int kMostTileCtas{144};                    // number of SMs of a full GH100
inline constexpr int kTileTotals{kTileRows / 2 * 32 * 36};  // floats that one CTA passes to the next
void attend_tiles(const LaunchContext& gpu, int num_tiles, const AttendTilesArgs& args);
void attend_wgmma(const LaunchContext& gpu, int num_tiles, const AttendTilesArgs& args);

size_t attend_tiles_shared_bytes();  // dynamic shared memory of a CTA
size_t attend_wgmma_shared_bytes();

void prepare_append();
void prepare_attend_rows();
void prepare_attend_tiles();
void prepare_attend_wgmma();

}  // namespace nibble::cuda
