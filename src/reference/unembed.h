// LM head: logits[o] = Wu rms_norm(x)[t], t = outputs[o]. Wu has no bias and is not tied to the embedding.
#pragma once

#include <span>

#include "core/tensors/view.h"
#include "core/threads/thread_pool.h"
#include "model/weights.h"
#include "reference/adapted_rows.h"
#include "reference/rounding.h"

namespace nibble::reference {

struct UnembedArgs {
  View<const float, 2> x;        // [T, H]: the residual stream
  std::span<const int> outputs;  // index of the row of x for each output
  Vector final_norm;             // [H]
  Matrix unembedding;            // [V, H]
  float rms_eps;
  View<float, 2> normed;  // [T, H]: receives rms_norm(x)
  View<float, 2> logits;  // [outputs.size(), V]: receives the logits
  ThreadPool* pool{};
  Rounding rounding{};   // applied to rms_norm(x) before the unembedding; adapters read it unrounded
  RowUpdates updates{};  // [outputs.size()] or empty
};
void unembed(const UnembedArgs& args);

}  // namespace nibble::reference
