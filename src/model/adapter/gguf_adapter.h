// Adapters of llama.cpp's converter: general.type "adapter", adapter.type "lora", and for a tensor NAME of
// the model
//   NAME.lora_a [r, in], NAME.lora_b [out, r]; experts with the number of the expert first
//   token_embd.weight.lora_a [V, r], .lora_b [H, r]: the update of [V, H] is A B^T
// (extents outermost first). The update is multiplied by adapter.lora.alpha / r, or by 1 if alpha is 0.
#pragma once

#include <vector>

#include "core/tensors/buffer.h"
#include "formats/gguf.h"
#include "model/adapter/adapter.h"
#include "model/config.h"

namespace nibble {

struct GgufUpdates {
  std::vector<MatrixUpdate> updates;  // views of the file or of `decoded`
  std::vector<Buffer> decoded;        // factors that the file stores in ggml blocks
};
// Checks metadata, and each tensor's name and shape. Throws InputError.
GgufUpdates read_gguf_adapter(const Gguf& gguf, const Config& config);

}  // namespace nibble
