// Predicts the time of a step on a chip by a roofline per operation (model/ops.h), without knowledge of the
// kernels. The chip may be absent: no GPU is needed. The time of an operation is
//
//  t = max(bytes / B, weights / W, flops / F) + launches * l
//
// bytes: those of weights, KV cache and activations. weights: number of weights to convert. flops: number of
// floating-point operations. B, W, F: bytes, weights and flops per second, which are the chip's rates
// (chip/caps.h) times the fractions that kernels reach (costs.h). l: seconds per launch. With
// own.prompt_activations, F is the rate of block-scaled products for operations with MXFP4 weights and more
// than 16 rows.
#pragma once

#include <string_view>

#include "backend/cuda/cuda_options.h"
#include "backend/prediction.h"
#include "model/ops.h"

namespace nibble::cuda {

// Predicts a step on `gpu` (a name of caps.h), or on several such chips with shares in the ratio own.parts.
// Also returns the chip's facts. Throws InputError if the chips cannot share the model, if their link is
// unknown, or if own.prompt_activations needs block-scaled products and the chip has none.
//
// A step takes as long as its slowest share, plus its all-reduces. `sharing.split` says whether every chip
// has a slice of every expert, or each chip has whole experts. With whole experts, the chips wait in each
// layer for the chip with the largest load, whose expected value is used (model/shares/expert_load.h). An
// all-reduce of R rows of H numbers over N GPUs takes
//
//  a + 6 * R * H * ((N - 1) / N) / w
//
// a: latency of the all-reduce: `sharing.sum_seconds` or, if not set, NCCL's. w: bandwidth of the link. 6:
// bytes sent per number, a float32 term to the GPU that adds up the row, and a bfloat16 result back.
StepPrediction predict_on(std::string_view gpu, const Config& config, const StorageFormats& formats,
                          const CudaOptions& own, const PredictedStep& step,
                          const PredictedSharing& sharing = {});

}  // namespace nibble::cuda
