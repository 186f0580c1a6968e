// Predicts the time of a step on a chip, which need not be present: a roofline per operation (model/ops.h)
// that knows nothing about kernels. Needs no GPU.
//
//  t = max(bytes / B, weights / W, operations / F) + launches * l
//
// bytes: weights, KV cache and activations. B, W, F: bytes read, weights converted and operations done per
// second: the chip's rates (chip/caps.h) times shares that kernels reach (costs.h). l: seconds per launch.
#pragma once

#include <string_view>

#include "backend/cuda/cuda_options.h"
#include "backend/prediction.h"
#include "model/ops.h"

namespace nibble::cuda {

// Predicts a step on a chip, named as in caps.h, or on several chips that share the model as own.parts says
// (model/shares/share.h); also returns the chip's facts. Throws InputError if the chips cannot share the
// model or their link is unknown. A step takes as long as its slowest share, plus its all-reduces. nibble's
// GPUs split every expert by units; a split by whole experts is only predicted, from the largest expected
// load in each layer (model/shares/expert_load.h). An all-reduce of R rows of H numbers over N GPUs takes
//
//  a + 6 (N - 1) / N R H / w
//
// a: latency of the all-reduce: `sharing.sum_seconds` or, if not set, that of NCCL. w: bandwidth of the link.
// 6 bytes per number: a float32 term sent to the GPU that adds up the row, and a bfloat16 result sent back.
StepPrediction predict_on(std::string_view gpu, const Config& config, const StorageFormats& formats,
                          const CudaOptions& own, const PredictedStep& step,
                          const PredictedSharing& sharing = {});

}  // namespace nibble::cuda
