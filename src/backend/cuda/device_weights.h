// The weights on the device, in the layouts that the kernels read (strips.h).
#pragma once

#include <cuda_bf16.h>

#include <vector>

#include "backend/backend.h"
#include "backend/cuda/chip/device.h"
#include "backend/cuda/layout/strips.h"
#include "core/progress.h"
#include "model/weights.h"

namespace nibble::cuda {

struct DeviceLayer {
  LayerKind kind{LayerKind::kFull};
  float *attention_norm{nullptr}, *qkv_bias{nullptr}, *sinks{nullptr}, *o_bias{nullptr}, *mlp_norm{nullptr},
      *router_bias{nullptr}, *up_bias{nullptr}, *down_bias{nullptr};
  Strips qkv, o, router;
  Strips up, down;  // of expert 0; the other experts follow
};

struct DeviceWeights {
  __nv_bfloat16* embedding{nullptr};  // [V, H]
  std::vector<DeviceLayer> layers;
  float* final_norm{nullptr};
  Strips unembedding;
  DeviceBuffer storage;
};

inline Strips router_strips(const Config& config) {
  return make_strips(Layout::kBf16, config.num_experts, config.hidden, kRouterSegmentTiles);
}

// Bytes that the weights take on the device.
size_t device_weight_bytes(const Config& config, const DenseFormats& dense);

// Uploads the weights through two pinned buffers, or generates them on the device by their Recipe, and repacks them
// there. Takes kStagingBytes (uploader.h) beside the result. Throws InputError for a format that no kernel reads.
DeviceWeights upload(const Weights& weights, const DenseFormats& dense, int num_threads);

}  // namespace nibble::cuda
