// Rotary positions, half-split: elements i and i + D/2 of a head are a pair. p: position; f, c: model/rope.h.
//   y[i]       = x[i] cos - x[i + D/2] sin        cos = c cos(p f_i),  sin = c sin(p f_i)        i < D/2
//   y[i + D/2] = x[i + D/2] cos + x[i] sin
// p f_i is rounded to float32, as in training; float32 is enough for the rest.
#pragma once

#include <span>

#include "backend/cpu/batch_row.h"
#include "core/tensors/view.h"
#include "model/rope.h"

namespace nibble::cpu {

// Computes cos and sin for the rows' positions, once for all layers and heads of a step.
struct RotationsArgs {
  const RopeFrequencies& rope;
  std::span<const BatchRow> rows;
  View<float, 2> cosines, sines;  // [T, D/2]: results for each row
};
void rotations(const RotationsArgs& args);

void rotate(std::span<float> x, const float* cosines, const float* sines);

}  // namespace nibble::cpu
