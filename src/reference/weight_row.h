// Decodes rows of weight matrices of any format to float32, and multiplies and adds rows in double.
#pragma once

#include <cstddef>

#include "model/weights.h"

namespace nibble::reference {

// Decodes a row of elements or blocks into `row` [weight.cols]. The whole matrix is never expanded.
void decode_row(const Matrix& weight, ptrdiff_t row_index, float* row);

// Returns the sum of a[i] b[i] in double. The product of two float32 is exact in double, so the error is far
// below the rounding error of a float32 result, and routers decide near ties as in exact arithmetic. Element
// i is added to sum i % 8, so that all compilers can vectorise the loop in the same order. Callers check
// shapes. Sanitizers are off: they made this loop, most of the reference's time, forty times slower.
__attribute__((no_sanitize("address", "undefined"))) inline double dot(const float* a, const float* b,
                                                                       ptrdiff_t count) {
  constexpr ptrdiff_t kSums{8};
  double sums[kSums]{};
  ptrdiff_t i = 0;
  for (; i + kSums <= count; i += kSums)
    for (ptrdiff_t s = 0; s < kSums; ++s) sums[s] += double{a[i + s]} * double{b[i + s]};
  for (; i < count; ++i) sums[i % kSums] += double{a[i]} * double{b[i]};
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

// sum[i] += factor * x[i], in double. Sanitizers are off, as for dot().
__attribute__((no_sanitize("address", "undefined"))) inline void add_scaled(double factor, const float* x,
                                                                            double* sum, ptrdiff_t count) {
  for (ptrdiff_t i = 0; i < count; ++i) sum[i] += factor * double{x[i]};
}

}  // namespace nibble::reference
