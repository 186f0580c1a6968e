// Predicts the time of a step on a chip that need not be present, from the chip's speeds (caps.h) and the
// kernels' costs (costs.h). For each launch
//
//   t = max(bytes / B, prologue + slots / (4 M f u), prologue + products / (r M f u')) + serial
//
// B: bytes per second that stream: a share of what the chip reads, or what M SMs with full rings take. M, f:
// number of SMs and their clock. slots: warp instructions, of which an SM issues up to 4 per clock. products:
// mma.m16n8k16, up to r per clock. u, u': shares of these rates that loops reach. Serial parts were measured
// on Hopper and are scaled by the clock.
//
// A test compares the model with measurements of decoding (tests/backend/cuda/host/predict_test.cpp). Needs
// no GPU.
#pragma once

#include <string_view>
#include <vector>

#include "backend/cuda/chip/caps.h"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/cuda_options.h"
#include "backend/prediction.h"
#include "model/ops.h"

namespace nibble::cuda {

std::vector<PredictedTime> predict(const ChipSpeeds& chip, const Target& target, const Config& config,
                                   const StorageFormats& formats, const PredictedStep& step);

// Predicts a step on a chip by name (caps.h), or on several chips that share the model as own.parts says
// (model/shares/share.h); also returns the chip's facts. Throws InputError if they cannot share it, or if
// their link is unknown.
//
// A step takes as long as its slowest share, plus its all-reduces. With whole experts, the slowest share is
// the one with the largest expected load of each layer (model/shares/expert_load.h). An all-reduce of R rows
// of H numbers over N GPUs takes (ranks/protocol.h)
//
//   a + 8 (N - 1) R H / w,         as tagged words to all other GPUs, or for more rows
//   2 a + 6 (N - 1) / N R H / w,   terms to the owners of rows and their norms to all
//
// a: the latency of one exchange, `sharing.sum_seconds` (not set: NCCL's). w: the link's bandwidth. nibble's
// GPUs split every expert by units; whole experts are only predicted.
StepPrediction predict_on(std::string_view gpu, const Config& config, const StorageFormats& formats,
                          const CudaOptions& own, const PredictedStep& step,
                          const PredictedSharing& sharing = {});

}  // namespace nibble::cuda
