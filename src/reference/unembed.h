// LM head: logits[o] = Wu rms_norm(x)[t], t = outputs[o]. Wu has no bias and is not tied to the embedding.
#pragma once

#include <span>

#include "core/thread_pool.h"
#include "core/view.h"
#include "model/weights.h"
#include "reference/rounding.h"

namespace nibble::reference {

struct UnembedArgs {
  View<const float, 2> x;        // [T, H]
  std::span<const int> outputs;  // rows of x
  Vector final_norm;             // [H]
  Matrix unembedding;            // [V, H]
  float rms_eps;
  View<float, 2> normed;  // [T, H]
  View<float, 2> logits;  // [number of outputs, V]
  ThreadPool* pool{};
  Rounding rounding{};  // of rms_norm(x)
};
void unembed(const UnembedArgs& args);

}  // namespace nibble::reference
