// Embedding: x[t] = E[token of row t].
#pragma once

#include <span>

#include "core/tensors/view.h"
#include "model/weights.h"
#include "reference/kv_cache.h"

namespace nibble::reference {

struct EmbedArgs {
  std::span<const BatchRow> rows;
  Matrix embedding;  // [V, H]
  View<float, 2> x;  // [T, H]: receives the embeddings
};
void embed(const EmbedArgs& args);

}  // namespace nibble::reference
