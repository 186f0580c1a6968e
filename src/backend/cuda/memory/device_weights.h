// A rank's share of the weights (model/shares/share.h) in GPU memory, in the layouts that kernels read.
#pragma once

#include <cuda_bf16.h>

#include <vector>

#include "backend/backend.h"
#include "backend/cuda/chip/device.h"
#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/layout/strips.h"
#include "core/console/progress.h"
#include "model/shares/share.h"
#include "model/weights.h"

namespace nibble::cuda {

struct DeviceLayer {
  LayerKind kind{LayerKind::kFull};
  float *attention_norm{nullptr}, *qkv_bias{nullptr}, *sinks{nullptr}, *o_bias{nullptr}, *mlp_norm{nullptr},
      *router_bias{nullptr}, *up_bias{nullptr}, *down_bias{nullptr};
  Strips qkv, o, router;
  Strips up, down;  // matrices of the rank's first expert; the matrices of its other experts follow in memory
};

struct DeviceWeights {
  __nv_bfloat16* embedding{nullptr};  // [V, H]: one row per token id
  std::vector<DeviceLayer> layers;
  float* final_norm{nullptr};
  Strips unembedding;
  int first_of_vocab{0};  // token id of the first row of `unembedding`
  DeviceBuffer storage;
};

size_t device_weight_bytes(const Config& whole, const Share& share, const DenseFormats& dense);

// Uploads a rank's share through two pinned buffers and repacks it on the GPU. Synthetic weights (Recipe in
// model/weights.h) are generated on the GPU. Loading takes kStagingBytes (uploader.h) of GPU memory besides
// the weights. Calls `report` with the number of bytes that are on the GPU: at the start (0), before each
// layer, and at the end. Throws InputError for a format that no kernel reads.
DeviceWeights upload(const Weights& weights, const Share& share, const DenseFormats& dense, int num_threads,
                     const ReportProgress& report = {});

}  // namespace nibble::cuda
