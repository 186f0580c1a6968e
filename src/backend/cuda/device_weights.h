// The weights on the device, in the layouts that the kernels read.
#pragma once

#include <cuda_bf16.h>

#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device.h"
#include "backend/cuda/strips.h"
#include "core/progress.h"
#include "model/weights.h"

namespace nibble::cuda {

struct DeviceLayer {
  LayerKind kind{LayerKind::kFull};
  float *attention_norm{nullptr}, *qkv_bias{nullptr}, *sinks{nullptr}, *o_bias{nullptr}, *mlp_norm{nullptr},
      *router_bias{nullptr}, *up_bias{nullptr}, *down_bias{nullptr};
  Strips qkv, o, router;
  Strips up, down;  // of expert 0; the others behind it
};

struct DeviceWeights {
  __nv_bfloat16* embedding{nullptr};  // [V, H]
  std::vector<DeviceLayer> layers;
  float* final_norm{nullptr};
  Strips unembedding;
  DeviceBuffer storage;
};

// A warp holds a segment of the router: it is there before the activations are.
inline Strips router_strips(const Config& config) {
  return make_strips(Layout::kBf16, config.num_experts, config.hidden, RingShape<Layout::kBf16>::kSlots);
}

// What they take on the device.
size_t device_weight_bytes(const Config& config, const DenseFormats& dense);

// Streams them through two pinned buffers, or makes them on the device where they are not made yet (Weights::unmade), and
// repacks them there: at most kStagingBytes beside the result. Throws InputError for a format that has no kernel.
inline constexpr size_t kStagingBytes{size_t{512} << 20};
DeviceWeights upload(const Weights& weights, const DenseFormats& dense, int num_threads);

}  // namespace nibble::cuda
