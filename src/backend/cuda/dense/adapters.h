// Updates of dense products by the adapters that rows use (BackendOptions::adapters): y[t] += B (A x[t]), in
// float32, in two launches after the product. Steps in which no row uses an adapter launch neither. CUDA code
// includes this header, so it must compile as C++17.
#pragma once

#include "backend/cuda/chip/target.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/layout/activations.h"
#include "model/operation.h"

namespace nibble::cuda {

inline constexpr int kMostUpdates{3};  // q, k and v, which multiply the same x

// An adapter's update of a matrix [rows, cols].
struct AdapterUpdate {
  const float* a{nullptr};  // [rank, cols]
  const float* b{nullptr};  // [rank, rows]: B transposed, multiplied by the update's scale
  int rank{0};              // 0: the adapter does not change the matrix
};

// The updates of `count` matrices that multiply the same x. The matrices' products are adjacent columns of y.
struct AdapterUpdates {
  const AdapterUpdate* updates{nullptr};  // [adapters, count]; null: no adapter changes these matrices
  int count{0};
  int num_rows[kMostUpdates]{};  // rows of each matrix
  int cols{0};                   // columns of each matrix, a multiple of 4
  int most_rank{0};              // the largest rank of `updates`
};

// The rows of a launch. Row n of x and y is row rows[n] of the step; if `rows` is null, it is row n.
struct AdapterRows {
  const OptionalIndex* adapters;  // [rows of the step]: the adapter that each row uses
  const int* rows;                // [count] or null
  int count;
};

struct AddUpdatesArgs {
  AdapterUpdates matrices;
  AdapterRows rows;
  Activations x;    // [rows.count, cols]: plain rows or an image
  float* products;  // [rows.count, matrices.count, most_rank], scratch: A x
  float* y;         // [rows.count, row_stride], input and output
  int row_stride;   // distance between rows of y, in floats
};
// `operation`: the operation that the launches belong to in profiles.
void add_updates(const LaunchContext& gpu, Operation operation, const AddUpdatesArgs& args);

void prepare_adapters();

}  // namespace nibble::cuda
