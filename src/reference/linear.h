// Linear layer: y[t,o] = sum_i W[o,i] x[t,i] + b[o].
#pragma once

#include "core/thread_pool.h"
#include "core/view.h"
#include "model/weights.h"
#include "reference/rounding.h"

namespace nibble::reference {

struct LinearArgs {
  View<const float, 2> x;  // [T, in]
  Matrix weight;           // [out, in]
  Vector bias;             // [out]; empty: no bias
  View<float, 2> y;        // [T, out]
  ThreadPool* pool{};      // null: runs on the calling thread, also in all other operations
  Rounding rounding{};     // of x
};
void linear(const LinearArgs& args);

// Adds the result to x: x[t,o] += y[t,o]. The last part of the attention block: x += W attended + b.
struct ProjectArgs {
  View<const float, 2> attended;  // [T, Nq D]
  Matrix weight;                  // [H, Nq D]
  Vector bias;                    // [H]
  View<float, 2> x;               // [T, H]
  ThreadPool* pool{};
  Rounding rounding{};  // of `attended`
};
void project(const ProjectArgs& args);

}  // namespace nibble::reference
