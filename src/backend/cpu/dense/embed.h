// Embedding: x[t] = E[token of row t].
#pragma once

#include <span>

#include "backend/cpu/batch_row.h"
#include "core/tensors/view.h"
#include "model/weights.h"

namespace nibble::cpu {

struct EmbedArgs {
  std::span<const BatchRow> rows;
  const Matrix& embedding;  // [V, H], BF16 or ggml blocks
  View<float, 2> x;         // [T, H]: the residual stream
};
void embed(const EmbedArgs& args);

}  // namespace nibble::cpu
