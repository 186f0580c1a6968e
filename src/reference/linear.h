// Linear layer: y[t,o] = sum_i W[o,i] x[t,i] + b[o]. Rows with an adapter add sum_k B[o,k] (A[k] x[t]).
#pragma once

#include "core/tensors/view.h"
#include "core/threads/thread_pool.h"
#include "model/weights.h"
#include "reference/adapted_rows.h"
#include "reference/rounding.h"

namespace nibble::reference {

struct LinearArgs {
  View<const float, 2> x;  // [T, in]: inputs
  Matrix weight;           // [out, in]
  Vector bias;             // [out]; empty: no bias
  View<float, 2> y;        // [T, out]: receives the results
  ThreadPool* pool{};      // null: all work is done on the calling thread
  Rounding rounding{};     // applied to x before products with `weight`; adapters read x unrounded
  RowUpdates updates{};    // [T] or empty
};
void linear(const LinearArgs& args);

// Arguments of x += W attended + b, the last part of the attention block. project() adds its result to x.
struct ProjectArgs {
  View<const float, 2> attended;  // [T, Nq D]: output of attention
  Matrix weight;                  // [H, Nq D]
  Vector bias;                    // [H]
  View<float, 2> x;               // [T, H]: the residual stream
  ThreadPool* pool{};
  Rounding rounding{};   // applied to `attended` before products with `weight`; adapters read it unrounded
  RowUpdates updates{};  // [T] or empty
};
void project(const ProjectArgs& args);

}  // namespace nibble::reference
