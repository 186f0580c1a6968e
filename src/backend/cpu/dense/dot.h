// Computes a panel (some rows) of a linear layer with weights W: y[t][r] = W[first_row + r] . x[t]. Either W
// has the checkpoint's layout and x is float32, or W is packed in strips and x is int8.
#pragma once

#include "backend/cpu/kernel_table.h"
#include "backend/cpu/packed_matrix.h"
#include "core/tensors/view.h"
#include "model/weights.h"

namespace nibble::cpu {

struct PanelArgs {
  const Matrix& weight;  // stored as Elements
  ptrdiff_t first_row;
  const float* const* x;  // [T]: pointers to rows of weight.cols elements in split order
  View<float, 2> y;       // [T, rows of the panel]: results; rows of y need not be adjacent
};

inline void dot(const Kernels& kernels, const PanelArgs& args) {
  const Elements& weight = args.weight.elements();
  kernels.dot(weight.format)
      ->kernel({.weights = weight.data,
                .scales = weight.scales,
                .row_scales = weight.row_scales,
                .cols = args.weight.cols,
                .first_row = static_cast<int>(args.first_row),
                .num_rows = static_cast<int>(args.y.shape[1]),
                .x = args.x,
                .num_tokens = static_cast<int>(args.y.shape[0]),
                .y = args.y.data,
                .y_stride = args.y.stride[0]});
}

struct StripPanelArgs {
  const PackedMatrix& weight;
  int which;  // index of the expert; 0 for a single matrix
  ptrdiff_t first_row;
  const Q8Block* const* x;  // [T]: pointers to rows of weight.cols / 32 blocks
  View<float, 2> y;         // [T, rows of the panel]: results; the panel must consist of whole strips
};

inline void dot(const Kernels& kernels, const StripPanelArgs& args) {
  kernels.strip(args.weight.format, static_cast<int>(args.y.shape[0]))
      ->kernel({.codes = args.weight.codes(args.which),
                .scales = args.weight.scales(args.which),
                .cols = args.weight.cols,
                .first_row = static_cast<int>(args.first_row),
                .num_rows = static_cast<int>(args.y.shape[1]),
                .x = args.x,
                .num_tokens = static_cast<int>(args.y.shape[0]),
                .y = args.y.data,
                .y_stride = args.y.stride[0]});
}

}  // namespace nibble::cpu
