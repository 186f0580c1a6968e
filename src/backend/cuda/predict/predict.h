// Predicts the time of a step on a chip that need not be present: a roofline per operation (model/ops.h),
// without knowledge of any kernel. Needs no GPU.
//
//  t = max(bytes / B, weights / W, operations / F) + launches * l
//
// bytes: weights, KV cache and activations. B, W, F: bytes read, weights converted and operations multiplied
// per second: rates of the chip (chip/caps.h) times shares that kernels reach (costs.h). l: seconds per
// launch.
#pragma once

#include <string_view>

#include "backend/cuda/cuda_options.h"
#include "backend/prediction.h"
#include "model/ops.h"

namespace nibble::cuda {

// Predicts a step on a chip by name (caps.h), or on several chips that share the model as own.parts says
// (model/shares/share.h); also returns the chip's facts. Throws InputError if they cannot share it, or if
// their link is unknown. A step takes as long as its slowest share, plus its all-reduces. nibble's GPUs split
// every expert by units; whole experts are only predicted, by the largest expected load of each layer
// (model/shares/expert_load.h). An all-reduce of R rows of H numbers over N GPUs takes
//
//  a + 6 (N - 1) / N R H / w
//
// a: its latency, `sharing.sum_seconds` (not set: NCCL's). w: the link's bandwidth. 6: bytes of a float32
// term to the owner of a row and of a bfloat16 result from it.
StepPrediction predict_on(std::string_view gpu, const Config& config, const StorageFormats& formats,
                          const CudaOptions& own, const PredictedStep& step,
                          const PredictedSharing& sharing = {});

}  // namespace nibble::cuda
