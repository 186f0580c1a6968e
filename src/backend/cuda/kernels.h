// Launch functions of a step's operations. Each kernel waits for the kernels before it (pdl.cuh).
//
// Dimensions: T tokens, H hidden size, D = 64 head size, Nq query heads, Nkv key/value heads, E experts of
// which K are chosen, I units of an expert, V vocabulary. Activations are bfloat16, sums are float32.
//
// If whole strips would not spread evenly over the multiprocessors, a matrix is cut anywhere, even within a
// strip. A row's sum then consists of two partial sums, [2, T, rows], which the reader adds. Kernels for many
// tokens, which take the norm as input, compute both partial sums of a row in one CTA, and store their sum.
//
// Each kernel reads activations in one layout, and writes each layout for which its arguments have a
// destination (activations.h).
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

// x = embedding[token] for each row. First the launch begins the step: it increments the step number, records
// the time, copies the step's input from the host, and fills in the tokens that the previous step chose.
struct EmbedArgs {
  StepExchange exchange;
  uint8_t* input;                  // device copy of the input, in which all tokens are filled in
  const __nv_bfloat16* embedding;  // [V, H]
  int hidden;
  float* x;                          // [T, H]
  uint32_t* step;                    // step number; the launch increments it
  unsigned* ticket;                  // zero before and after every launch
  const SampleResult* last_results;  // results of the previous step
  MadeDrafts last_drafts;            // made by the previous step, if there is a draft head
};
void embed(const LaunchContext& gpu, int num_tokens, const EmbedArgs& args);

// The residual stream as its producers leave it: x, and terms that the reader must add to it, in this order:
// the second partial sum of a matrix product, or the outputs of the chosen experts.
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

// normed = norm(x). Also writes x with its terms added, possibly in place, and, if `blocks` has a
// destination, the norm in a block-scaled format.
struct RmsNormArgs {
  NormInput norm;
  int num_tokens;
  float* x;            // [T, H] or null
  Activations normed;  // [T, H], as rows or as an image
  BlockRows blocks{};  // [T, H]
  // [num_tokens]: indices of the rows of the step to normalise; null: all.
  const int* rows{nullptr};
};
void rms_norm(const LaunchContext& gpu, const RmsNormArgs& args);

// kE4m3: each element is rounded to nearest even, saturating at 448, without a scale.
enum class KvFormat { kBf16, kE4m3 };
struct LayerPages {
  void* data;      // [page, keys and values, Nkv, 32, D]
  int is_sliding;  // selects the page table
  KvFormat format;
};

// Pages of the KV cache that the attention after qkv() reads. qkv() prefetches them into L2 once its own
// weights have arrived: otherwise memory would be idle until attention has started and knows its pages.
struct PagesAhead {
  StepInput input{};
  LayerPages pages{};
  int page_bytes{0};
  int max_pages{0};  // pages to prefetch per row, last page first; 0: none
};

// parts = W norm(x) + b                                  W [Nq D + 2 Nkv D, H]
struct QkvArgs {
  NormInput norm;
  // [T, H], read by kernels that take the norm (kernel_table.h: Pass).
  Activations normed;
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

// Writes rope(k) and v of every row to the KV cache, in the slots of StepInput. Used by steps in which rows
// of one sequence see each other; in other steps attend_rows() writes k and v.
struct AppendArgs {
  StepInput input;
  const float* parts;  // result of qkv()
  bool has_rest;       // it is in two parts
  int num_tokens, num_heads, num_kv_heads;
  RopeInput rope;
  LayerPages pages;
  // [T, Nq D] or null: rope(q) log2(e) / 8, for attend_tiles(). If they are an image, the columns of a cell
  // are in natural order.
  Activations queries;
};
void append(const LaunchContext& gpu, const AppendArgs& args);

// out = softmax(rope(q) k / 8, sink) v over the positions that a row sees, one row at a time. A row of a
// draft tree sees the rows on its path (RowPath).
struct AttendArgs {
  StepInput input;
  const float* parts;  // result of qkv()
  bool has_rest;       // it is in two parts
  int num_tokens, num_heads, num_kv_heads;
  RopeInput rope;
  LayerPages pages;
  int window;          // 0: no window
  const float* sinks;  // [Nq]
  // Whether attend_rows() also writes the rows' own k and v. All rows must then be of different sequences.
  int writes_kv;
  int first_row, max_chunks;
  float* partials;    // [rows of the launch, Nkv, max_chunks, kPartialFloats]
  unsigned* tickets;  // [rows of the launch, Nkv], zero before and after every launch
  Activations out;    // [T, Nq D]
  // [mailbox_partials, kPartialFloats], zero before and after every launch. A launch with at most
  // mailbox_partials partial results may combine them here.
  float* mailbox{nullptr};
  int mailbox_partials{0};
};
inline constexpr int kChunkPages{8};   // per CTA of attend_rows(): 256 positions
inline constexpr int kMaxChunks{512};  // per row: 131,072 positions
inline constexpr int kMaxGroupHeads{8};
inline constexpr int kPartialFloats{kMaxGroupHeads * (64 + 2)};
void attend_rows(const LaunchContext& gpu, int num_rows, const AttendArgs& args);

// Fewest rows of a sequence for which attention works in tiles. Fewer rows are computed one at a time, with
// one CTA per chunk.
inline constexpr int kMinTiledRows{32};

// Attention as in attend_rows(), but for tiles: consecutive rows of one sequence, which share the keys and
// values that are loaded. append() must have written k and v of all rows.
struct AttendTilesArgs {
  StepInput input;
  int num_heads, num_kv_heads;
  LayerPages pages;
  int window;            // 0: no window
  const float* sinks;    // [Nq]
  Activations attended;  // [T, Nq D]: the queries as append() left them; overwritten by the result
  // [kMostTileCtas, kTileTotals], zero before and after every launch: through it attend_wgmma() passes the
  // totals of tiles that several CTAs share.
  float* mailbox{nullptr};
};
inline constexpr int kMostTileCtas{144};                    // multiprocessors of a full GH100
inline constexpr int kTileTotals{kTileRows / 2 * 32 * 36};  // floats
void attend_tiles(const LaunchContext& gpu, int num_tiles, const AttendTilesArgs& args);
void attend_wgmma(const LaunchContext& gpu, int num_tiles, const AttendTilesArgs& args);

// parts = x + W attended + b                             W [H, Nq D]
struct ProjectArgs {
  Activations attended;
  int cols;
  // x may be null: nothing is added, and `hidden` is the number of rows of W.
  ResidualInput residual;
  Strips weights;
  const float* bias;  // or null
  int num_tokens;
  float* parts;          // [2, T, H]; x and b are in the first part
  float* sums{nullptr};  // [segments, T, rows in whole strips], scratch of project_split()
  // Chunks of the longest row in the attention before this product; 0: no attention before it. While a short
  // attention runs, project() prefetches less (spares_attention() in decode/dense.cu).
  int attended_chunks{0};
};
void project(const LaunchContext& gpu, const ProjectArgs& args);

// Pairs of a token and an expert, grouped by expert, up to `size` pairs per group; pair = token K + slot. If
// ranks hold whole experts (model/shares/share.h), each rank chooses among all experts and computes only its
// own. Matrices and groups then number the rank's own experts from 0. A pair of another rank's expert is in
// no group and has weight 0.
struct Groups {
  int size;                 // columns of a pass of experts_up() and experts_down()
  int* count;               // number of groups
  int* expert;              // [groups], numbered among the rank's own
  int* num_pairs;           // [groups]
  int* pairs;               // [groups, size]
  float* weight;            // [T, K], indexed by pair
  int* image_row{nullptr};  // [groups]: first row in images of pairs, a multiple of 8
};

// Finds the K largest of W normed + b, and their softmax.
struct RouteArgs {
  int hidden;
  Strips weights;  // [E, H]
  const float* bias;
  int num_tokens, experts_per_token;
  IndexRange own;      // the experts whose weights are here
  Activations normed;  // [T, H]
  float* logits;       // [T, E]
  // [T, K], scratch: experts, numbered among the rank's own; negative: another rank's.
  int* chosen;
  int* rank;         // [T, K], scratch: index of a pair among its expert's pairs
  unsigned* ticket;  // zero before and after every launch
  Groups groups;
  // If norm.weights is set, route_batch() computes the norm of up to kRouterNorms tokens. It writes the norm
  // to `normed` and, if `x` is set, the sum of the parts that project() left to `x`.
  NormInput norm{};
  float* x{nullptr};  // [T, H]
};
// If a step has few pairs (are_matched), route_batch() only computes the logits: experts_up() chooses the
// experts.
void route_batch(const LaunchContext& gpu, const RouteArgs& args);
// Chooses the experts by logits that are already computed, and forms groups.
void rank_experts(const LaunchContext& gpu, const RouteArgs& args);

// [E, 2 I, H]: a strip is 8 gate rows and their 8 up rows.
struct UpWeights {
  Strips weights;
  const float* bias;  // [E, 2 I], interleaved
  int hidden, intermediate;
  float limit;
};
// Mailboxes through which CTAs pass on the routing of few tokens (are_matched() in groups.h): the CTAs of
// route_and_experts_up() to each other, and the CTAs of route_and_experts_up() or experts_up() to those of
// experts_down(), the next launch. A word has 32 bits of payload below a tag, the number of step and layer. A
// reader polls the word until it carries the current tag, so no word has to be reset. This takes half the
// time of ending one kernel and starting the next.
struct RoutingMailbox {
  uint64_t* sums{nullptr};     // [T, segments of the router's strips, 16], for T <= kOwnNorms
  uint64_t* experts{nullptr};  // [T, K], numbered among those of all ranks
  float* weights{nullptr};     // [T, K]
  const uint32_t* step{nullptr};
  uint32_t num_layers{0}, layer{0};  // tag: *step num_layers + layer
};

// gated = swiglu(W[e] normed + b[e])
struct ExpertsUpArgs {
  Activations normed;  // [T, H]
  Groups groups;
  int num_tokens, experts_per_token, max_groups;  // max_groups: grid size
  UpWeights up;
  Activations gated;  // [T K, I], in the layout of `normed`; an image holds the pairs of groups
  // Scratch of experts_up_images(): an image into which it gathers the rows of the groups' pairs.
  Activations gathered{};  // [pairs of groups, H]
  // If `routing` is set, the experts are not chosen yet (are_matched): each CTA of experts_up() ranks the
  // experts of all tokens by these logits and groups the pairs itself. The first CTA also passes the routing
  // on. `groups` then holds only its size.
  const float* logits{nullptr};  // [T, E]
  RoutingMailbox routing{};
  int num_experts{0};  // E, of all ranks
  IndexRange own{};    // the experts whose weights are here
};
void experts_up(const LaunchContext& gpu, const ExpertsUpArgs& args);

// The norm, the router and experts_up() of up to kOwnNorms tokens in one launch. Its CTAs wait for each
// other, so all of them must be resident at once: at most one per multiprocessor.
struct RouteAndExpertsUpArgs {
  NormInput norm;  // input: the two parts of project()
  Strips router;   // [E, H]
  const float* router_bias;
  int num_tokens, experts_per_token;
  IndexRange own;  // the experts whose weights are here
  float* x;        // [T, H], output: the sum of the two parts
  RoutingMailbox routing;
  UpWeights up;
  __nv_bfloat16* gated;  // [T K, I]
};
void route_and_experts_up(const LaunchContext& gpu, const RouteAndExpertsUpArgs& args);
// Returns whether route_and_experts_up() can run: its CTAs must be enough for the router's segments, and few
// enough to be resident at once.
bool has_route_and_experts_up(const Target& target, const Strips& router, const Strips& up, int hidden,
                              int experts_per_token);

// out = weight (W[e] gated + b[e]), for pairs whose expert this rank holds.      W [E, H, I]
struct ExpertsDownArgs {
  Activations gated;       // [T K, I], as experts_up() writes it
  Groups groups;           // its lists are read only if `routing` is not set
  RoutingMailbox routing;  // set for few tokens (are_matched), and always for a single one
  IndexRange own;          // the experts whose weights this rank holds, read with `routing`
  int num_experts;         // E, of all ranks
  int num_tokens, experts_per_token, max_groups;
  int hidden, intermediate;
  Strips weights;
  const float* bias;         // [E, H]
  float* out;                // [T K, H]
  unsigned* turns{nullptr};  // [K], 0 before and after: experts_down() counts its CTAs here
};
void experts_down(const LaunchContext& gpu, const ExpertsDownArgs& args);

// logits = W norm(x) of selected rows.                   W [V, H]
struct UnembedArgs {
  NormInput norm;
  const int* rows;  // [num_rows], indices into the step's rows
  int num_rows;
  Strips weights;
  // [num_rows, V], from the token of the weights' first row on.
  float* logits;
  // [num_rows, H], read by kernels that take the norm (kernel_table.h: Pass).
  Activations normed{};
  // Floats from one row's logits to the next row's: more than weights.rows if `weights` is one rank's share
  // of V.
  int row_stride{weights.rows};
  unsigned* deals{nullptr};  // [1 + kMostDeals], 0 before and after: counters of unembed_dealt()
};
inline constexpr unsigned kMostDeals{64};  // one per pass
void unembed(const LaunchContext& gpu, const UnembedArgs& args);
void unembed_dealt(const LaunchContext& gpu, const UnembedArgs& args);  // weights in BF16 or E4M3

// Chooses a token from each row of logits, and computes the log-probabilities that requests want.
struct SampleArgs {
  const SampleRow* rows;  // [rows of the launch]
  const RowInput* input;  // the step's
  float* logits;      // [rows, V]; the kernel applies biases and penalties in place, and restores the logits
  int vocab;          // at most kMaxVocab
  bool are_greedy;    // every row needs only the likeliest token
  uint64_t* best;     // [rows, kBestCtas], scratch
  unsigned* tickets;  // [rows], zero before and after every launch
  SampleResult* results;  // [rows]
  // Set if the host reads the results: the number of the step, and the output index of the launch's first
  // row. Null: the host does not read them.
  const uint32_t* step{nullptr};
  StepExchange exchange{};
  int first_output{0};
};
inline constexpr int kBestCtas{64};
void sample(const LaunchContext& gpu, int num_rows, const SampleArgs& args);

// Reads `count` times 16 bytes, to measure bandwidth.
struct ReadArgs {
  const uint4* from;
  size_t count;
  uint32_t* sum;
};
void read_all(Stream stream, int num_multiprocessors, const ReadArgs& args);

// Bytes of dynamic shared memory of a CTA: for the products of many tokens by mma.sync, by wgmma and in
// block-scaled form, and for attend_tiles() and attend_wgmma().
size_t many_shared_bytes(Layout layout);
size_t wgmma_shared_bytes(Layout layout);
size_t block_shared_bytes(BlockFormat format);
size_t attend_tiles_shared_bytes();
size_t attend_wgmma_shared_bytes();

// The operations above for many tokens: weights are read once per kManyColumns tokens.
void qkv_many(const LaunchContext& gpu, const QkvArgs& args);
void project_many(const LaunchContext& gpu, const ProjectArgs& args);
void unembed_many(const LaunchContext& gpu, const UnembedArgs& args);
void logits_many(const LaunchContext& gpu, const RouteArgs& args);  // the matrix product of route_many()
void route_many(const LaunchContext& gpu, const RouteArgs& args);
void experts_up_many(const LaunchContext& gpu, const ExpertsUpArgs& args);
void experts_down_many(const LaunchContext& gpu, const ExpertsDownArgs& args);
// The operations for many tokens by wgmma.
void qkv_wgmma(const LaunchContext& gpu, const QkvArgs& args);
void qkv_narrow(const LaunchContext& gpu, const QkvArgs& args);  // for batches: more and smaller CTAs
void qkv_split(const LaunchContext& gpu, const QkvArgs& args);   // up to kSplitTokens; items are segments
void project_wgmma(const LaunchContext& gpu, const ProjectArgs& args);
void project_narrow(const LaunchContext& gpu, const ProjectArgs& args);
void project_split(const LaunchContext& gpu, const ProjectArgs& args);
void unembed_wgmma(const LaunchContext& gpu, const UnembedArgs& args);
void logits_wgmma(const LaunchContext& gpu, const RouteArgs& args);
void route_wgmma(const LaunchContext& gpu, const RouteArgs& args);
void experts_up_images(const LaunchContext& gpu, const ExpertsUpArgs& args);
void experts_down_images(const LaunchContext& gpu, const ExpertsDownArgs& args);
// The experts' products for many tokens by block-scaled products, in the format of the activations.
void experts_up_blocks(const LaunchContext& gpu, const ExpertsUpArgs& args);
void experts_down_blocks(const LaunchContext& gpu, const ExpertsDownArgs& args);

// Set the kernels' shared memory limits. prepare_kernels() calls all of them, once before the first launch.
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
