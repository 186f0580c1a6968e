// Launch functions of a step's operations. Each kernel waits for the results of the kernels before it (pdl.cuh). T
// tokens, H hidden, D = 64, Nq and Nkv heads, E experts of which K are chosen, I their width, V vocabulary;
// activations are bfloat16, sums float32.
//
// Where whole strips would not spread evenly over the multiprocessors, a matrix product is cut anywhere. A row's sum
// then comes in two parts, [2, T, rows], which its reader adds. Kernels for many tokens, which take the norm, have both parts of a row in
// one CTA: they add them themselves, and leave one part.
//
// The kernels of an operation take their activations in one layout, or write those that they are given room for (activations.h).
#pragma once

#include <cuda_bf16.h>
#include <vector_types.h>

#include "backend/cuda/activations.h"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/draft/slots.h"
#include "backend/cuda/groups.h"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/sample/sample_input.h"
#include "backend/cuda/step/row_input.h"
#include "backend/cuda/step/step_exchange.h"
#include "core/index_range.h"

namespace nibble::cuda {

inline constexpr int kMaxExpertsPerToken{8}, kMaxExperts{128};

// x = embedding[token]. Before that it counts the step, says that it begins, brings the step's input from the host, and fills in what the step
// before has left.
struct EmbedArgs {
  StepExchange exchange;
  uint8_t* input;  // where the input goes, on the device; the tokens of its rows are known then
  const __nv_bfloat16* embedding;  // [V, H]
  int hidden;
  float* x;                          // [T, H]
  uint32_t* step;                    // its number: one more behind the launch
  unsigned* ticket;                  // zero before and after every launch
  const SampleResult* last_results;  // of the step before
  MadeDrafts last_drafts;            // by the step before, where there is a draft head
};
void embed(const LaunchContext& gpu, int num_tokens, const EmbedArgs& args);

// The residual stream as its producers leave it: x, and terms that are still to be added to it, in order: the second
// part of a matrix product's sums, or the outputs of the chosen experts.
struct ResidualInput {
  const float* x{nullptr};        // [T, H]
  const float* x_rest{nullptr};   // [T, H] or null
  const float* experts{nullptr};  // [T, K, H] or null
  int num_experts{0};             // K
  int hidden{0};                  // H
};
struct NormInput {
  ResidualInput residual;
  const float* weights;  // [H]
  float eps;
};

// normed = norm(x); also writes x added up, which may be in place, and normed in a format of block-scaled products where `blocks` has
// room for it.
struct RmsNormArgs {
  NormInput norm;
  int num_tokens;
  float* x;            // [T, H] or null
  Activations normed;  // [T, H], in rows or an image
  BlockRows blocks{};  // [T, H]
  // [num_tokens], indices into the step's rows, of which only these are wanted; null: all.
  const int* rows{nullptr};
};
void rms_norm(const LaunchContext& gpu, const RmsNormArgs& args);

// kE4m3: an element is rounded to nearest even, saturating at 448, without a scale.
enum class KvFormat { kBf16, kE4m3 };
struct LayerPages {
  void* data;      // [page, keys and values, Nkv, 32, D]
  int is_sliding;  // selects the page table
  KvFormat format;
};

// Pages that attention will read behind qkv(), which asks for them in L2 when its own weights have come. Until attention has begun and knows its
// pages, memory would have nothing to do.
struct PagesAhead {
  StepInput input{};
  LayerPages pages{};
  int page_bytes{0};
  int max_pages{0};  // of each row, the last ones; 0: nothing is asked for
};

// parts = W norm(x) + b                                  W [Nq D + 2 Nkv D, H]
struct QkvArgs {
  NormInput norm;
  Activations normed;  // [T, H], where the kernel takes the norm (kernel_table.h: Pass)
  Strips weights;
  const float* bias;  // or null
  int num_tokens;
  float* parts;          // [2, T, rows]
  float* sums{nullptr};  // [segments, T, rows in whole strips], scratch of qkv_split()
  PagesAhead ahead{};
};
void qkv(const LaunchContext& gpu, const QkvArgs& args);
void qkv_normed(const LaunchContext& gpu, const QkvArgs& args);  // takes the norm

struct RopeInput {
  const float* frequencies;  // [D / 2]
  float concentration;
};

// Writes rope(k) and v of every row to the cache, in the slots of StepInput, for steps in which rows of one sequence see each other.
// Elsewhere attend_rows() does it.
struct AppendArgs {
  StepInput input;
  const float* parts;  // result of qkv()
  bool has_rest;       // it is in two parts
  int num_tokens, num_heads, num_kv_heads;
  RopeInput rope;
  LayerPages pages;
  // [T, Nq D] or none: rope(q) log2(e) / 8, for attend_tiles(). The cells of an image have their columns in natural order.
  Activations queries;
};
void append(const LaunchContext& gpu, const AppendArgs& args);

// out = softmax(rope(q) k / 8, sink) v over the positions that the row sees, for rows one by one; in a tree along its path (RowPath).
struct AttendArgs {
  StepInput input;
  const float* parts;  // result of qkv()
  bool has_rest;       // it is in two parts
  int num_tokens, num_heads, num_kv_heads;
  RopeInput rope;
  LayerPages pages;
  int window;          // 0: no window
  const float* sinks;  // [Nq]
  int writes_kv;  // attend_rows() writes the rows' own k and v; all rows must then be of different sequences
  int first_row, max_chunks;
  float* partials;    // [rows of the launch, Nkv, max_chunks, kPartialFloats]
  unsigned* tickets;  // [rows of the launch, Nkv], zero before and after every launch
  Activations out;    // [T, Nq D]
  // [mailbox_partials, kPartialFloats], zero before and after every launch. Launches whose partial results it holds may join them there.
  float* mailbox{nullptr};
  int mailbox_partials{0};
};
inline constexpr int kChunkPages{8};   // per CTA of attend_rows(): 256 positions
inline constexpr int kMaxChunks{512};  // per row: 131,072 positions
inline constexpr int kMaxGroupHeads{8};
inline constexpr int kPartialFloats{kMaxGroupHeads * (64 + 2)};
void attend_rows(const LaunchContext& gpu, int num_rows, const AttendArgs& args);

// The least rows of a sequence that are attended to in tiles; fewer are attended to one by one, with a CTA for each chunk.
inline constexpr int kMinTiledRows{32};

// The same for tiles: neighbouring rows of one sequence, which share the keys and values that they load. append() has written all rows'
// k and v.
struct AttendTilesArgs {
  StepInput input;
  int num_heads, num_kv_heads;
  LayerPages pages;
  int window;            // 0: no window
  const float* sinks;    // [Nq]
  Activations attended;  // [T, Nq D]: the queries as append() left them; becomes the result
  // [kMostTileCtas, kTileTotals], zero before and after every launch: attend_wgmma() shares tiles among CTAs through it.
  float* mailbox{nullptr};
};
inline constexpr int kMostTileCtas{144};                    // a whole GH100 has as many multiprocessors
inline constexpr int kTileTotals{kTileRows / 2 * 32 * 36};  // floats
void attend_tiles(const LaunchContext& gpu, int num_tiles, const AttendTilesArgs& args);
void attend_wgmma(const LaunchContext& gpu, int num_tiles, const AttendTilesArgs& args);

// parts = x + W attended + b                             W [H, Nq D]
struct ProjectArgs {
  Activations attended;
  int cols;
  ResidualInput residual;  // its x may be null: there is none, and `hidden` is the number of rows of W
  Strips weights;
  const float* bias;  // or null
  int num_tokens;
  float* parts;          // [2, T, H]; x and b are in the first part
  float* sums{nullptr};  // [segments, T, rows in whole strips], scratch of project_split()
  // The attention before this product had so many chunks for its longest row, or there was none: 0. project() spares a short one (decode/dense.cu).
  int attended_chunks{0};
};
void project(const LaunchContext& gpu, const ProjectArgs& args);

// The pairs of a token and an expert, grouped by expert: groups of up to `size` pairs, pair = token K + slot. Where ranks have whole experts
// (model/shares/share.h), all of them choose among all experts, and each multiplies with its own: matrices and groups count these from 0, and
// a pair of another rank's expert is in no group and has the weight 0.
struct Groups {
  int size;                 // the columns of a pass of experts_up() and experts_down()
  int* count;               // number of groups
  int* expert;              // [groups], of those that are here
  int* num_pairs;           // [groups]
  int* pairs;               // [groups, size]
  float* weight;            // [T, K], indexed by pair
  int* image_row{nullptr};  // [groups]: where each begins in images of pairs, a multiple of 8
};

// The K largest of W normed + b, and the softmax over them.
struct RouteArgs {
  int hidden;
  Strips weights;  // [E, H]
  const float* bias;
  int num_tokens, experts_per_token;
  IndexRange own;      // the experts whose weights are here
  Activations normed;  // [T, H]
  float* logits;       // [T, E]
  int* chosen;         // [T, K], scratch: experts as the weights count them; below 0: another rank's
  int* rank;           // [T, K], scratch
  unsigned* ticket;    // zero before and after every launch
  Groups groups;
  // Where its weights are there, route_batch() computes the norm of up to kRouterNorms tokens: it leaves that in `normed`, and where `x` is
  // there, the sum of what project() left in it.
  NormInput norm{};
  float* x{nullptr};  // [T, H]
};
// Where a step has few pairs (are_matched), route_batch() chooses no experts: experts_up() ranks them by the logits.
void route_batch(const LaunchContext& gpu, const RouteArgs& args);
// The choice alone, and groups, by the logits.
void rank_experts(const LaunchContext& gpu, const RouteArgs& args);

struct UpWeights {  // [E, 2 I, H]: a strip is 8 gate rows and their up rows
  Strips weights;
  const float* bias;  // [E, 2 I], interleaved
  int hidden, intermediate;
  float limit;
};
// Mailboxes in which CTAs pass on the routing of a few tokens (are_matched): those of route_and_experts_up to each other, and they, or those of
// experts_up(), to those of experts_down after them. A word
// has 32 bits of payload below a tag, the number of step and layer; a reader polls it until it carries the current tag, so nothing
// has to be reset. That takes half as long as ending one kernel and starting the next.
struct RoutingMailbox {
  uint64_t* sums{nullptr};     // [T, segments of the router's strips, 16], of up to kOwnNorms tokens
  uint64_t* experts{nullptr};  // [T, K], of all ranks
  float* weights{nullptr};     // [T, K]
  const uint32_t* step{nullptr};
  uint32_t num_layers{0}, layer{0};  // tag: *step num_layers + layer
};

// gated = swiglu(W[e] normed + b[e]).
struct ExpertsUpArgs {
  Activations normed;  // [T, H]
  Groups groups;
  int num_tokens, experts_per_token, max_groups;  // max_groups: grid size
  UpWeights up;
  Activations gated;  // [T K, I], in the layout of `normed`; an image is of the pairs of groups
  // Scratch of experts_up_images(), which gathers the pairs of groups there: an image.
  Activations gathered{};  // [pairs of groups, H]
  // Where the mailbox is there, nobody has chosen yet (are_matched): each CTA of experts_up() ranks the experts of all tokens by these logits,
  // groups the pairs for itself, and the first passes the routing on. `groups` then holds its size alone.
  const float* logits{nullptr};  // [T, E]
  RoutingMailbox routing{};
  int num_experts{0};  // E, those of all ranks
  IndexRange own{};    // the experts whose weights are here
};
void experts_up(const LaunchContext& gpu, const ExpertsUpArgs& args);

// The norm, the router and experts_up() of up to kOwnNorms tokens in one launch. Its CTAs wait for each other, so all must be resident at once: at
// most one per multiprocessor.
struct RouteAndExpertsUpArgs {
  NormInput norm;  // input: the two parts of project()
  Strips router;   // [E, H]
  const float* router_bias;
  int num_tokens, experts_per_token;
  IndexRange own;  // the experts whose weights are here
  float* x;        // [T, H]: sum of the two parts
  RoutingMailbox routing;
  UpWeights up;
  __nv_bfloat16* gated;  // [T K, I]
};
void route_and_experts_up(const LaunchContext& gpu, const RouteAndExpertsUpArgs& args);
// Says whether route_and_experts_up() can run: its CTAs are enough for the router's segments, and few enough to be resident at once.
bool has_route_and_experts_up(const Target& target, const Strips& router, const Strips& up, int hidden,
                              int experts_per_token);

// out = weight (W[e] gated + b[e]), of pairs whose expert is here.      W [E, H, I]
struct ExpertsDownArgs {
  Activations gated;       // [T K, I], as experts_up() leaves it
  Groups groups;           // read where there is no mailbox
  RoutingMailbox routing;  // there for few tokens (are_matched), and always for a single one
  IndexRange own;          // the experts whose weights are here, read with `routing`
  int num_experts;         // E, those of all ranks
  int num_tokens, experts_per_token, max_groups;
  int hidden, intermediate;
  Strips weights;
  const float* bias;         // [E, H]
  float* out;                // [T K, H]
  unsigned* turns{nullptr};  // [K], 0 before and after: experts_down() counts its CTAs
};
void experts_down(const LaunchContext& gpu, const ExpertsDownArgs& args);

// logits = W norm(x) of selected rows.                   W [V, H]
struct UnembedArgs {
  NormInput norm;
  const int* rows;  // [num_rows], indices into the step's rows
  int num_rows;
  Strips weights;
  float* logits;  // [num_rows, V], from the token of the weights' first row on
  // [num_rows, H], where the kernel takes the norm (kernel_table.h: Pass).
  Activations normed{};
  int row_stride{
      weights
          .rows};  // from the logits of one row to those of the next: more where the weights are a share of V
  unsigned* deals{nullptr};  // [1 + kMostDeals], 0 before and after: unembed_dealt() counts in it
};
inline constexpr unsigned kMostDeals{64};  // one for each pass
void unembed(const LaunchContext& gpu, const UnembedArgs& args);
void unembed_dealt(const LaunchContext& gpu, const UnembedArgs& args);  // weights in BF16 or E4M3

// Chooses a token from each row of logits, and computes the log-probabilities that are asked for.
struct SampleArgs {
  const SampleRow* rows;  // [rows of the launch]
  const RowInput* input;  // the step's
  float* logits;      // [rows, V]; the kernel applies biases and penalties in place, and restores the logits
  int vocab;          // at most kMaxVocab
  bool are_greedy;    // every row asks for nothing but the likeliest token
  uint64_t* best;     // [rows, kBestCtas], scratch
  unsigned* tickets;  // [rows], zero before and after every launch
  SampleResult* results;  // [rows]
  // For a step whose results the host wants as well: its number, and which of its outputs the first row is. null: the host does not.
  const uint32_t* step{nullptr};
  StepExchange exchange{};
  int first_output{0};
};
inline constexpr int kBestCtas{64};
void sample(const LaunchContext& gpu, int num_rows, const SampleArgs& args);

// Reads `count` times 16 bytes, for measuring bandwidth.
struct ReadArgs {
  const uint4* from;
  size_t count;
  uint32_t* sum;
};
void read_all(Stream stream, int num_multiprocessors, const ReadArgs& args);

// Bytes of dynamic shared memory that a CTA takes: of the products of many tokens, of these in block-scaled products, and of
// attend_tiles() and attend_wgmma().
size_t many_shared_bytes(Layout layout);
size_t wgmma_shared_bytes(Layout layout);
size_t block_shared_bytes(BlockFormat format);
size_t attend_tiles_shared_bytes();
size_t attend_wgmma_shared_bytes();

// The operations above for many tokens: weights are read once for kManyColumns of them.
void qkv_many(const LaunchContext& gpu, const QkvArgs& args);
void project_many(const LaunchContext& gpu, const ProjectArgs& args);
void unembed_many(const LaunchContext& gpu, const UnembedArgs& args);
void logits_many(const LaunchContext& gpu, const RouteArgs& args);  // the part of route_many that multiplies
void route_many(const LaunchContext& gpu, const RouteArgs& args);
void experts_up_many(const LaunchContext& gpu, const ExpertsUpArgs& args);
void experts_down_many(const LaunchContext& gpu, const ExpertsDownArgs& args);
// The same by wgmma, for up to kMostColumns.
void qkv_wgmma(const LaunchContext& gpu, const QkvArgs& args);
void qkv_narrow(const LaunchContext& gpu, const QkvArgs& args);  // for batches: more and smaller CTAs
void qkv_split(const LaunchContext& gpu, const QkvArgs& args);   // up to kSplitTokens, a CTA for a segment
void project_wgmma(const LaunchContext& gpu, const ProjectArgs& args);
void project_narrow(const LaunchContext& gpu, const ProjectArgs& args);
void project_split(const LaunchContext& gpu, const ProjectArgs& args);
void unembed_wgmma(const LaunchContext& gpu, const UnembedArgs& args);
void logits_wgmma(const LaunchContext& gpu, const RouteArgs& args);
void route_wgmma(const LaunchContext& gpu, const RouteArgs& args);
void experts_up_images(const LaunchContext& gpu, const ExpertsUpArgs& args);
void experts_down_images(const LaunchContext& gpu, const ExpertsDownArgs& args);
// The same in block-scaled products, in the format of the blocks.
void experts_up_blocks(const LaunchContext& gpu, const ExpertsUpArgs& args);
void experts_down_blocks(const LaunchContext& gpu, const ExpertsDownArgs& args);

// Set the kernels' shared memory limits. Call prepare_kernels(), which is all of them, once before the first launch.
void prepare_kernels();
void prepare_embed();
void prepare_linear();
void prepare_unembed_dealt();
void prepare_router();
void prepare_append();
void prepare_attend_rows();
void prepare_attend_tiles();
void prepare_attend_wgmma();
void prepare_keep_drafts();
void prepare_experts();
void prepare_route_and_experts_up();
void prepare_prompt_dense();
void prepare_prompt_experts();
void prepare_prompt_blocks();
void prepare_prompt_rows();
void prepare_wgmma_dense();
void prepare_split_dense();
void prepare_image_experts();
void prepare_sample();

}  // namespace nibble::cuda
