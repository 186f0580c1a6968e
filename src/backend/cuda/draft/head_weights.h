// A draft head's weights on the device. Names and dimensions are those of reference/draft_head.h.
#pragma once

#include <cuda_bf16.h>

#include "backend/backend.h"
#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/memory/device_weights.h"

namespace nibble::cuda {

struct HeadWeights {
  float* features_norm{nullptr};  // [3 H]: weights of the norm of the taps; null if the head has no such norm
  float *token_norm{nullptr}, *hidden_norm{nullptr}, *mlp_norm{nullptr}, *final_norm{nullptr};  // [H] each
  Strips fc;                                                                                    // [H, 3 H]
  Strips qkv;                               // [Nq D + 2 Nkv D, 2 H]: rows of Wq, Wk, Wv
  Strips kv;                                // [2 Nkv D, 2 H]: the rows of Wk and Wv, a view of `qkv`
  Strips o;                                 // [H, Nq D]: Wo
  Strips gate_up;                           // [2 I, H]: rows of Wgate, then of Wup
  Strips down;                              // [H, I]: Wdown
  Strips unembedding;                       // [draft vocabulary, H]: Wu
  const __nv_bfloat16* embedding{nullptr};  // [V, H]: E, one row per token id of the model
  int* tokens{nullptr};  // [draft vocabulary]: the model's id for each token id of the head
  DeviceBuffer storage;
};

// Throws InputError if no kernel supports the head's shapes, or if a row of activations needs too much shared
// memory.
void check_head(const DraftHead& head, Format format, const Target& target);

// Returns the device bytes of the head's weights, without those that it shares with the model
// (upload_head()).
size_t head_weight_bytes(const BackendOptions& options);

// Uploads options.draft_head in the format options.draft_head_format. Loading takes up to kStagingBytes more
// memory. If the head has no embedding or unembedding of its own, the model's is used: a view of `device`,
// which must outlive the result, or an upload from `model` if `device` has it in another format. Throws
// InputError for a format that no kernel reads.
HeadWeights upload_head(const Weights& model, const DeviceWeights& device, const BackendOptions& options);

}  // namespace nibble::cuda
