// Launch functions of attention. Each kernel waits for those before it (pdl.cuh). Dimensions: T tokens, D =
// 64 head size, Nq query heads, Nkv key/value heads. Activations are bfloat16, sums float32.
#pragma once

#include "backend/cuda/chip/target.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/layout/activations.h"

namespace nibble::cuda {

// kE4m3: each element is rounded to nearest even, saturating at 448, without a scale.
enum class KvFormat { kBf16, kE4m3 };
struct LayerPages {
  void* data;      // [page, keys and values, Nkv, 32, D]
  int is_sliding;  // whether rows use their sliding page table
  KvFormat format;
};

// KV cache pages that the attention after qkv() reads. qkv() prefetches them into L2 once its own weights
// have arrived: otherwise memory would idle until attention has started and knows its pages.
struct PagesAhead {
  StepInput input{};
  LayerPages pages{};
  int page_bytes{0};
  int max_pages{0};  // pages to prefetch per row, last page first; 0: none
};

struct RopeInput {
  const float* frequencies;  // [D / 2]
  float concentration;
};

// Writes rope(k) and v of every row to the KV cache slots of StepInput, in steps in which rows of one
// sequence see each other; in other steps attend_rows() writes k and v.
struct AppendArgs {
  StepInput input;
  const float* parts;  // result of qkv()
  bool has_rest;       // whether `parts` has two partial sums to add
  int num_tokens, num_heads, num_kv_heads;
  RopeInput rope;
  LayerPages pages;
  // [T, Nq D] or null: rope(q) log2(e) / 8, for attend_tiles(). In an image, columns keep their order.
  Activations queries;
};
void append(const LaunchContext& gpu, const AppendArgs& args);

// Attention of single rows: out = softmax(rope(q) k / 8, sink) v. A row sees the positions up to its own or,
// in a draft tree, those of its path (RowPath).
struct AttendArgs {
  StepInput input;
  const float* parts;  // result of qkv()
  bool has_rest;       // whether `parts` has two partial sums to add
  int num_tokens, num_heads, num_kv_heads;
  RopeInput rope;
  LayerPages pages;
  int window;          // 0: no window
  const float* sinks;  // [Nq]
  // Whether attend_rows() also writes k and v of the rows. If so, no two rows may be of one sequence.
  int writes_kv;
  int first_row, max_chunks;
  float* partials;    // [rows of the launch, Nkv, max_chunks, kPartialFloats]: one partial softmax per chunk
  unsigned* tickets;  // [rows of the launch, Nkv]: finished CTAs; zero before and after every launch
  Activations out;    // [T, Nq D]
  // [mailbox_partials, kPartialFloats]: partial softmaxes that CTAs exchange; zero between launches.
  float* mailbox{nullptr};
  int mailbox_partials{0};
};
inline constexpr int kChunkPages{8};   // 256 positions
inline constexpr int kMaxChunks{512};  // per row: 131,072 positions
inline constexpr int kMaxGroupHeads{8};
inline constexpr int kPartialFloats{kMaxGroupHeads * (64 + 2)};
void attend_rows(const LaunchContext& gpu, int num_rows, const AttendArgs& args);

// Fewest rows of a sequence for attention in tiles; attend_rows() computes fewer.
inline constexpr int kMinTiledRows{32};

// Attention in tiles: consecutive rows of one sequence share loaded K and V. append() must have run.
struct AttendTilesArgs {
  StepInput input;
  int num_heads, num_kv_heads;
  LayerPages pages;
  int window;            // 0: no window
  const float* sinks;    // [Nq]
  Activations attended;  // [T, Nq D]: the queries as append() left them; overwritten by the result
  // [kMostTileCtas, kTileTotals]: sums of a tile that the next CTA continues; zero before and after a launch.
  float* mailbox{nullptr};
};
inline constexpr int kMostTileCtas{144};                    // multiprocessors of a full GH100
inline constexpr int kTileTotals{kTileRows / 2 * 32 * 36};  // floats per CTA
void attend_tiles(const LaunchContext& gpu, int num_tiles, const AttendTilesArgs& args);
void attend_wgmma(const LaunchContext& gpu, int num_tiles, const AttendTilesArgs& args);

size_t attend_tiles_shared_bytes();  // dynamic shared memory of a CTA
size_t attend_wgmma_shared_bytes();

void prepare_append();
void prepare_attend_rows();
void prepare_attend_tiles();
void prepare_attend_wgmma();

}  // namespace nibble::cuda
