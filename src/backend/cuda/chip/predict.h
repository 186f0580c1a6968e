// Predicts how long a step takes on a chip that need not be here, from what the chip can do (caps.h) and what the kernels cost
// (costs.h). Of each launch
//
//   t = max(bytes / B, prologue + slots / (4 M f u), prologue + products / (r M f u')) + serial
//
// B: bytes per second that stream: a share of what the chip reads, or what M multiprocessors take whose rings are full. M, f: number of
// multiprocessors and their clock. slots: warp instructions, of which a multiprocessor issues up to 4 a clock. products: mma.m16n8k16, up
// to r a clock. u, u': shares of these rates that loops reach. Serial parts were measured on Hopper and are scaled by the clock.
//
// The model is held to measurements of decoding (tests/backend/cuda/host/predict_test.cpp). Needs no GPU.
#pragma once

#include <string_view>
#include <vector>

#include "backend/cuda/chip/target.h"
#include "backend/prediction.h"
#include "model/ops.h"

namespace nibble::cuda {

std::vector<PredictedTime> predict(const ChipSpeeds& chip, const Target& target, const Config& config,
                                   const StorageFormats& formats, const PredictedStep& step);

// The same of a chip by its name (caps.h), with what it is; of several that share the model as own.parts says (model/shares/share.h). Throws
// InputError where they cannot share it, or where their link is not known.
//
// A step takes as long as the longest of its shares, and its sums. Of whole experts that is the share in which each layer has the largest load
// that is expected (model/shares/expert_load.h). A sum of R rows of H numbers over N GPUs takes (ranks/protocol.h)
//
//   a + 8 (N - 1) R H / w,         which is words to all others, or of more rows
//   2 a + 6 (N - 1) / N R H / w,   terms to the owners of rows and their norms to all
//
// a: the sum's latency, `sharing.sum_seconds`; not set: what NCCL takes. w: the link's bandwidth. nibble's GPUs share units of every expert:
// whole experts are predicted alone.
StepPrediction predict_on(std::string_view gpu, const Config& config, const StorageFormats& formats,
                          const CudaOptions& own, const PredictedStep& step,
                          const PredictedSharing& sharing = {});

}  // namespace nibble::cuda
