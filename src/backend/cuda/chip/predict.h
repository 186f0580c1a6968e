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

#include "backend/cuda/chip/target.h"
#include "backend/prediction.h"
#include "model/ops.h"

namespace nibble::cuda {

std::vector<PredictedTime> predict(const ChipSpeeds& chip, const Target& target, const Config& config,
                                   const StorageFormats& formats, const PredictedStep& step);

// The same of a chip by its name (caps.h), with what it is.
// Throws InputError for a number of GPUs that does not divide the heads, or whose link is not known.
//
// Each of several GPUs has a share of the heads, of the experts' units and of the vocabulary; the step takes as long as the largest share. A
// sum of m bytes over N GPUs is sent to all at once, or its parts to those who add them up. Prompts may also send parts in float32 and
// their norms in bfloat16:
//
//   min(a + (N - 1) m / w, 2 a + 2 (N - 1) / N m / w)     prompts: or 2 a + (N - 1) / N (m + m / 2) / w, if that is less
//
// a: the sum's latency. w: the link's bandwidth.
StepPrediction predict_on(std::string_view gpu, const Config& config, const StorageFormats& formats,
                          const CudaOptions& own, const PredictedStep& step,
                          const PredictedCount& count = {});

}  // namespace nibble::cuda
