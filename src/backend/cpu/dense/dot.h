// A panel of a linear layer, by the kernel for W's format:
//
//   y[t][r] = W[first_row + r] . x[t]      r < the columns of y
#pragma once

#include "backend/cpu/kernel_table.h"
#include "core/view.h"
#include "model/weights.h"

namespace nibble::cpu {

struct PanelArgs {
  const Matrix& weight;
  ptrdiff_t first_row;
  const float* const* x;  // [T] rows of weight.cols elements, split order
  View<float, 2> y;       // [T, rows of the panel], perhaps with gaps between rows
};

inline void dot(const Kernels& kernels, const PanelArgs& args) {
  kernels.dot(args.weight.format)
      ->kernel({.weights = args.weight.data,
                .scales = args.weight.scales,
                .row_scales = args.weight.row_scales,
                .cols = args.weight.cols,
                .first_row = static_cast<int>(args.first_row),
                .num_rows = static_cast<int>(args.y.shape[1]),
                .x = args.x,
                .num_tokens = static_cast<int>(args.y.shape[0]),
                .y = args.y.data,
                .y_stride = args.y.stride[0]});
}

}  // namespace nibble::cpu
