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

// Throws InputError if kernels do not support the head's shapes, or no budget of the target holds a row.
void check_head(const DraftHead& head, Format format, const Target& target);

// Device bytes, without the parts that the head shares with the model (see upload_head).
size_t head_weight_bytes(const BackendOptions& options);

// Uploads options.draft_head in options.draft_head_format, using kStagingBytes on top. Matrices that the head
// lacks come from the model: views of `device`, which must outlive the result, or uploads from `model` if
// `device` has another format. Throws InputError for a format that no kernel reads.
HeadWeights upload_head(const Weights& model, const DeviceWeights& device, const BackendOptions& options);

}  // namespace nibble::cuda
