// Decodes a row of a weight matrix of any format to float32. Also the two loops over rows that the operations
// share.
#pragma once

#include <cstddef>

#include "model/weights.h"

namespace nibble::reference {

// Decodes a row of elements or blocks into `row` [weight.cols]. The matrix itself is never expanded.
void decode_row(const Matrix& weight, ptrdiff_t row_index, float* row);

// Returns the sum of a[i] b[i] in double. The product of two float32 is exact in double, so the error is far
// below a float32 rounding of the result, and routers decide near ties as exact arithmetic does. Element i is
// added to partial sum i % 8: an order that compilers can vectorise and that is the same with all of them.
//
// Not instrumented by sanitizers: instrumentation made dot() forty times slower, and the reference spends
// nearly all its time in it. Callers check shapes.
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

// sum[i] += factor * x[i], in double. Like dot(), not instrumented by sanitizers.
__attribute__((no_sanitize("address", "undefined"))) inline void add_scaled(double factor, const float* x,
                                                                            double* sum, ptrdiff_t count) {
  for (ptrdiff_t i = 0; i < count; ++i) sum[i] += factor * double{x[i]};
}

}  // namespace nibble::reference
