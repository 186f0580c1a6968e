// Launch functions of the embedding, norms, and dense products. Each kernel waits for the results of earlier
// kernels itself (pdl.cuh). Dimensions: T tokens, H hidden size, D = 64 elements per head, Nq query heads,
// Nkv key/value heads, V vocabulary. Activations are bfloat16; sums are float32.
//
// With few tokens, CTAs share a matrix evenly, so a CTA's share may begin inside a strip (16 rows of the
// matrix). Each of the two CTAs that share such a strip stores one part of the sums of the strip's rows, in
// [2 parts, T, rows], and the next kernel adds both parts. Kernels for many tokens add both parts themselves,
// and store the sums as part 0, without part 1.
//
// A kernel reads activations in one layout (layout/activations.h), and writes them in each layout for which
// its arguments have a destination.
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

// embed() computes x = embedding[token] for each row. It also begins the step: it increments the step
// number, records the time, copies the step's input from the host, and fills in the tokens that the previous
// step chose.
struct EmbedArgs {
  StepExchange exchange;
  uint8_t* input;                  // output: device copy of the step's input, in which all tokens are known
  const __nv_bfloat16* embedding;  // [V, H]: one row per token id
  int hidden;
  float* x;                          // [T, H], output: the residual stream
  uint32_t* step;                    // number of the step, which the launch increments
  unsigned* ticket;                  // counts CTAs that have read `step`; zero between launches
  const SampleResult* last_results;  // [output rows]: tokens that the previous step sampled
  MadeDrafts last_drafts;            // drafts that the previous step made; unused without a draft head
};
void embed(const LaunchContext& gpu, int num_tokens, const EmbedArgs& args);

// rms_norm() computes normed = norm(x), where x is the sum of the terms of the residual stream (NormInput).
// It can also store x itself, and norm(x) in a block-scaled format.
struct RmsNormArgs {
  NormInput norm;
  int num_tokens;
  float* x;                  // [T, H], output or null: the summed residual stream; may be norm.residual.x
  Activations normed;        // [T, H], output or null: norm(x), as rows or as an image (for wgmma)
  BlockRows blocks{};        // [T, H], output or null: norm(x) in a block-scaled format
  const int* rows{nullptr};  // [num_tokens]: rows of the step to normalise; null: all rows
};
void rms_norm(const LaunchContext& gpu, const RmsNormArgs& args);

// qkv() computes parts = W norm(x) + b, with W [Nq D + 2 Nkv D, H].
struct QkvArgs {
  NormInput norm;
  Activations normed;  // [T, H]: norm(x), for kernels that do not compute it themselves
  Strips weights;
  const float* bias;  // [rows] or null: b
  int num_tokens;
  float* parts;          // [2 parts, T, rows], output; kernels for many tokens store only the first part
  float* sums{nullptr};  // scratch of qkv_split(): [segments, T, rows padded to strips]
  PagesAhead ahead{};
};
void qkv(const LaunchContext& gpu, const QkvArgs& args);
void qkv_normed(const LaunchContext& gpu, const QkvArgs& args);  // reads norm(x) from `normed`

// project() computes parts = x + W attended + b, with W [H, Nq D] and the residual stream x.
struct ProjectArgs {
  Activations attended;  // [T, Nq D]: output of attention
  int cols;              // Nq D: columns of W
  // The residual stream. If residual.x is null, no stream is added, and residual.hidden is the number of
  // rows of W.
  ResidualInput residual;
  Strips weights;
  const float* bias;  // [H] or null: b
  int num_tokens;
  float* parts;  // [2 parts, T, H], output; the first part includes x and b
  // Scratch of project_split(): [segments, T, rows padded to strips]; or of project_blocks(): the codes of
  // `attended`, then its scales (BlockRows)
  float* sums{nullptr};
  // Number of chunks of the longest row, if the previous launch is attend_rows(); otherwise 0. While a short
  // attend_rows() runs, project() prefetches less (spares_attention() in dense/stream.cu).
  int attended_chunks{0};
};
void project(const LaunchContext& gpu, const ProjectArgs& args);

// unembed() computes logits = W norm(x) of selected rows of the step, with W [V, H].
struct UnembedArgs {
  NormInput norm;
  const int* rows;  // [num_rows]: rows of the step for which to compute logits
  int num_rows;
  Strips weights;
  float* logits;         // [num_rows, V], output; column n is the logit of row n of `weights`
  Activations normed{};  // [num_rows, H]: norm(x), for kernels that do not compute it themselves
  // Distance in floats between rows of `logits`. It exceeds weights.rows if `weights` is only one rank's
  // share of V.
  int row_stride{weights.rows};
  // [1 + kMostDeals], for unembed_dealt(): the number of finished CTAs, then one counter per pass, from which
  // CTAs get their next strips (dealt.cuh). All are zero between launches.
  unsigned* deals{nullptr};
};
inline constexpr unsigned kMostDeals{64};  // largest number of passes of unembed_dealt(); each has a counter
void unembed(const LaunchContext& gpu, const UnembedArgs& args);
void unembed_dealt(const LaunchContext& gpu, const UnembedArgs& args);  // for BF16 or E4M3 weights

// Variants for many tokens, by mma.sync. They read the weights once per 64 tokens (MXFP4) or 128 tokens (BF16
// and E4M3).
void qkv_many(const LaunchContext& gpu, const QkvArgs& args);
void project_many(const LaunchContext& gpu, const ProjectArgs& args);
void unembed_many(const LaunchContext& gpu, const UnembedArgs& args);
// Variants for many tokens, by wgmma.
void qkv_wgmma(const LaunchContext& gpu, const QkvArgs& args);
// qkv_narrow() is for batches: its items (rows and columns that a CTA multiplies at once) are smaller than
// those of qkv_wgmma(), so more CTAs have work.
void qkv_narrow(const LaunchContext& gpu, const QkvArgs& args);
// qkv_split() and project_split() are for up to kSplitTokens tokens. Each item is one segment of four strips.
void qkv_split(const LaunchContext& gpu, const QkvArgs& args);
void project_wgmma(const LaunchContext& gpu, const ProjectArgs& args);
void project_narrow(const LaunchContext& gpu, const ProjectArgs& args);
void project_split(const LaunchContext& gpu, const ProjectArgs& args);
void unembed_wgmma(const LaunchContext& gpu, const UnembedArgs& args);
void unembed_narrow(const LaunchContext& gpu, const UnembedArgs& args);

// Variants for many tokens and MXFP4 weights, by block-scaled products. qkv_blocks() and unembed_blocks()
// read norm(x) in the block-scaled format of args.normed. project_blocks() reads bfloat16 rows, which it
// first quantises to `format` in a separate launch.
void qkv_blocks(const LaunchContext& gpu, const QkvArgs& args);
template <BlockFormat format>
void project_blocks(const LaunchContext& gpu, const ProjectArgs& args);
void unembed_blocks(const LaunchContext& gpu, const UnembedArgs& args);

// These functions return the bytes of dynamic shared memory that a CTA of a dense product of many tokens
// needs: by mma.sync, by wgmma (the largest variant), and by block-scaled products.
size_t many_shared_bytes(Layout layout);
size_t wgmma_shared_bytes(Layout layout);
size_t dense_block_shared_bytes(BlockFormat format);

void prepare_embed();
void prepare_rms_norm();
void prepare_linear();
void prepare_unembed_dealt();
void prepare_prompt_dense();
void prepare_dense_blocks();
void prepare_wgmma_dense();
void prepare_split_dense();

}  // namespace nibble::cuda
