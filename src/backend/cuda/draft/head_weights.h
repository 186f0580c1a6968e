// A draft head's weights on the device.
#pragma once

#include <cuda_bf16.h>

#include "backend/backend.h"
#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/memory/device_weights.h"

namespace nibble::cuda {

struct HeadWeights {
  float* features_norm{nullptr};  // [3 H]; null if the head has none
  float *token_norm{nullptr}, *hidden_norm{nullptr}, *mlp_norm{nullptr}, *final_norm{nullptr};  // [H]
  Strips fc;                                                                                    // [H, 3 H]
  Strips qkv;                               // [Nq D + 2 Nkv D, 2 H]
  Strips kv;                                // the last 2 Nkv D rows of qkv
  Strips o;                                 // [H, Nq D]
  Strips gate_up;                           // [2 I, H]: gate, then up
  Strips down;                              // [H, I]
  Strips unembedding;                       // [draft vocabulary, H]
  const __nv_bfloat16* embedding{nullptr};  // [V, H]
  int* tokens{nullptr};                     // [draft vocabulary]: token ids of the model
  DeviceBuffer storage;
};

// Throws InputError if the kernels do not support the head's shapes, or if no budget of the target holds a
// row of its activations.
void check_head(const DraftHead& head, Format format, const Target& target);

// Returns the device bytes, without the parts that the head shares with the model (see upload_head).
size_t head_weight_bytes(const BackendOptions& options);

// Uploads options.draft_head in options.draft_head_format. Parts it lacks are shared with the model on the
// device, `device`, which must outlive the result; or uploaded from `model`, if the device holds them in
// another format. Uses kStagingBytes in addition to the result. Throws InputError for a format that no kernel
// reads.
HeadWeights upload_head(const Weights& model, const DeviceWeights& device, const BackendOptions& options);

}  // namespace nibble::cuda
