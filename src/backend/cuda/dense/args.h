// Launch functions of the embedding, norms, and dense products. Each kernel waits for those before it
// (pdl.cuh). Dimensions: T tokens, H hidden size, D = 64 head size, Nq query heads, Nkv key/value heads, V
// vocabulary. Activations are bfloat16, sums float32.
//
// With few tokens, CTAs share a matrix evenly, so that a share may begin within a strip. A row of such a
// strip has two partial sums, [2, T, rows], which the next kernel adds. Kernels for many tokens add both at
// once. A kernel reads activations in one layout and writes them in each layout for which its arguments have
// a destination (layout/activations.h).
#pragma once

#include <cuda_bf16.h>

#include "backend/cuda/attention/args.h"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/input/draft_slots.h"
#include "backend/cuda/input/step_exchange.h"
#include "backend/cuda/layout/activations.h"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/norm_input.h"

namespace nibble::cuda {

// x = embedding[token] for each row. The launch also begins the step: it increments the step number, records
// the time, copies the step's input from the host, and fills in the tokens that the previous step chose.
struct EmbedArgs {
  StepExchange exchange;
  uint8_t* input;                  // device copy of the step's input, in which embed fills in all tokens
  const __nv_bfloat16* embedding;  // [V, H]: one row per token id
  int hidden;
  float* x;                          // [T, H], output: the residual stream
  uint32_t* step;                    // number of the step, which the launch increments
  unsigned* ticket;                  // counts finished CTAs; zero before and after every launch
  const SampleResult* last_results;  // [output rows]: tokens that the previous step sampled
  MadeDrafts last_drafts;            // drafts that the previous step made; unused without a draft head
};
void embed(const LaunchContext& gpu, int num_tokens, const EmbedArgs& args);

// normed = norm(x). Also stores the sum of x's terms in `x` (may be in place) and a block-scaled norm.
struct RmsNormArgs {
  NormInput norm;
  int num_tokens;
  float* x;                  // [T, H], output: the sum of all terms of the stream; or null
  Activations normed;        // [T, H], output: the norm, as rows or as an image; or null
  BlockRows blocks{};        // [T, H], output: the norm in a block-scaled format; or null
  const int* rows{nullptr};  // [num_tokens]: rows of the step to normalise; null: all
};
void rms_norm(const LaunchContext& gpu, const RmsNormArgs& args);

// parts = W norm(x) + b                                  W [Nq D + 2 Nkv D, H]
struct QkvArgs {
  NormInput norm;
  Activations normed;  // [T, H]: the norm, for kernels that do not compute it
  Strips weights;
  const float* bias;  // [rows] or null: b
  int num_tokens;
  float* parts;          // [2, T, rows], output: one or two terms of each sum
  float* sums{nullptr};  // scratch of qkv_split(): [segments, T, rows in whole strips], a sum per segment
  PagesAhead ahead{};
};
void qkv(const LaunchContext& gpu, const QkvArgs& args);
void qkv_normed(const LaunchContext& gpu, const QkvArgs& args);  // reads the norm from `normed`

// parts = x + W attended + b                             W [H, Nq D]
struct ProjectArgs {
  Activations attended;
  int cols;
  // x may be null: nothing is added, and `hidden` is the number of rows of W.
  ResidualInput residual;
  Strips weights;
  const float* bias;  // [H] or null: b
  int num_tokens;
  float* parts;          // [2, T, H], output: terms of each sum; x and b are added to the first
  float* sums{nullptr};  // scratch of project_split(): [segments, T, rows in whole strips], a sum per segment
  // Chunks of the longest row in the attention before this product; 0: no attention before. While a short
  // attention runs, project() prefetches less (spares_attention() in dense/stream.cu).
  int attended_chunks{0};
};
void project(const LaunchContext& gpu, const ProjectArgs& args);

// logits = W norm(x) of selected rows.                   W [V, H]
struct UnembedArgs {
  NormInput norm;
  const int* rows;  // [num_rows]: rows of the step that get logits
  int num_rows;
  Strips weights;
  float* logits;         // [num_rows, V], output; column 0 is the token of the first row of `weights`
  Activations normed{};  // [num_rows, H]: the norm, for kernels that do not compute it
  // Floats between rows of logits: more than weights.rows if `weights` is one rank's share of V.
  int row_stride{weights.rows};
  unsigned* deals{nullptr};  // [1 + kMostDeals]: counters of unembed_dealt(); 0 before and after
};
inline constexpr unsigned kMostDeals{64};  // one counter per pass
void unembed(const LaunchContext& gpu, const UnembedArgs& args);
void unembed_dealt(const LaunchContext& gpu, const UnembedArgs& args);  // weights in BF16 or E4M3

// For many tokens by mma.sync: weights are read once per kManyColumns tokens.
void qkv_many(const LaunchContext& gpu, const QkvArgs& args);
void project_many(const LaunchContext& gpu, const ProjectArgs& args);
void unembed_many(const LaunchContext& gpu, const UnembedArgs& args);
// For many tokens by wgmma.
void qkv_wgmma(const LaunchContext& gpu, const QkvArgs& args);
void qkv_narrow(const LaunchContext& gpu, const QkvArgs& args);  // for batches: more and smaller CTAs
void qkv_split(const LaunchContext& gpu, const QkvArgs& args);   // up to kSplitTokens; CTAs take segments
void project_wgmma(const LaunchContext& gpu, const ProjectArgs& args);
void project_narrow(const LaunchContext& gpu, const ProjectArgs& args);
void project_split(const LaunchContext& gpu, const ProjectArgs& args);
void unembed_wgmma(const LaunchContext& gpu, const UnembedArgs& args);
void unembed_narrow(const LaunchContext& gpu, const UnembedArgs& args);

// Dynamic shared memory of a CTA of products of many tokens, dense or of experts.
size_t many_shared_bytes(Layout layout);
size_t wgmma_shared_bytes(Layout layout);

void prepare_embed();
void prepare_rms_norm();
void prepare_linear();
void prepare_unembed_dealt();
void prepare_prompt_dense();
void prepare_wgmma_dense();
void prepare_split_dense();

}  // namespace nibble::cuda
