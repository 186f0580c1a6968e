// Launch functions of the embedding, norms, and dense products. Each kernel waits for those before it
// (pdl.cuh). Dimensions: T tokens, H hidden size, D = 64 head size, Nq query heads, Nkv key/value heads, V
// vocabulary. Activations are bfloat16, sums float32.
//
// If whole strips would not spread evenly over the SMs, a matrix is cut anywhere, even within a strip. A
// row's sum then has two partial sums, [2, T, rows], which the reader adds. Kernels for many tokens, which
// take the norm as input, compute both in one CTA and store their sum. A kernel reads activations in one
// layout, and writes each layout with a destination in its arguments (layout/activations.h).
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

// normed = norm(x). Also stores x with its terms added (maybe in place), and a block-scaled norm to `blocks`.
struct RmsNormArgs {
  NormInput norm;
  int num_tokens;
  float* x;                  // [T, H] or null
  Activations normed;        // [T, H], as rows or as an image
  BlockRows blocks{};        // [T, H]
  const int* rows{nullptr};  // [num_tokens]: rows of the step to normalise; null: all
};
void rms_norm(const LaunchContext& gpu, const RmsNormArgs& args);

// parts = W norm(x) + b                                  W [Nq D + 2 Nkv D, H]
struct QkvArgs {
  NormInput norm;
  Activations normed;  // [T, H], read by kernels that take the norm (Pass)
  Strips weights;
  const float* bias;  // or null
  int num_tokens;
  float* parts;          // [2, T, rows]
  float* sums{nullptr};  // [segments, T, rows in whole strips], scratch of qkv_split()
  PagesAhead ahead{};
};
void qkv(const LaunchContext& gpu, const QkvArgs& args);
void qkv_normed(const LaunchContext& gpu, const QkvArgs& args);  // takes the norm

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
  // Chunks of the longest row in the attention before this product; 0: no attention before. While a short
  // attention runs, project() prefetches less (spares_attention() in dense/stream.cu).
  int attended_chunks{0};
};
void project(const LaunchContext& gpu, const ProjectArgs& args);

// logits = W norm(x) of selected rows.                   W [V, H]
struct UnembedArgs {
  NormInput norm;
  const int* rows;  // [num_rows], indices into the step's rows
  int num_rows;
  Strips weights;
  float* logits;         // [num_rows, V], from the token of the weights' first row on
  Activations normed{};  // [num_rows, H], read by kernels that take the norm (Pass)
  // Floats between rows of logits: more than weights.rows if `weights` is one rank's share of V.
  int row_stride{weights.rows};
  unsigned* deals{nullptr};  // [1 + kMostDeals], 0 before and after: counters of unembed_dealt()
};
inline constexpr unsigned kMostDeals{64};  // one per pass
void unembed(const LaunchContext& gpu, const UnembedArgs& args);
void unembed_dealt(const LaunchContext& gpu, const UnembedArgs& args);  // weights in BF16 or E4M3

// The same products for many tokens: weights are read once per kManyColumns tokens.
void qkv_many(const LaunchContext& gpu, const QkvArgs& args);
void project_many(const LaunchContext& gpu, const ProjectArgs& args);
void unembed_many(const LaunchContext& gpu, const UnembedArgs& args);
// The same products by wgmma, for many tokens.
void qkv_wgmma(const LaunchContext& gpu, const QkvArgs& args);
void qkv_narrow(const LaunchContext& gpu, const QkvArgs& args);  // for batches: more and smaller CTAs
void qkv_split(const LaunchContext& gpu, const QkvArgs& args);   // up to kSplitTokens; items are segments
void project_wgmma(const LaunchContext& gpu, const ProjectArgs& args);
void project_narrow(const LaunchContext& gpu, const ProjectArgs& args);
void project_split(const LaunchContext& gpu, const ProjectArgs& args);
void unembed_wgmma(const LaunchContext& gpu, const UnembedArgs& args);

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
