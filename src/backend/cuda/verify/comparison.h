// Compares what a kernel left with what it should have left, and keeps the worst.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "backend/kernel_check.h"
#include "core/error.h"

namespace nibble::cuda::verify {

class Comparison {
 public:
  // body() launches a kernel and compares what it leaves, at a shape which errors then name. Throws InputError where the GPU fails.
  template <typename Body>
  void at(std::string shape, const Body& body) {
    shape_ = std::move(shape);
    try {
      body();
    } catch (const InputError& error) {
      throw InputError("{} at {}", error.what(), shape_);
    }
  }

  // |actual - expected| <= bound. NaN is wrong.
  void near(const char* what, ptrdiff_t row, ptrdiff_t column, double actual, double expected, double bound) {
    take({what, row, column, actual, expected}, std::abs(actual - expected), bound);
  }
  // The same of a bfloat16: `expected` was rounded, so that half a step between bfloat16 numbers comes on top.
  void near_bf16(const char* what, ptrdiff_t row, ptrdiff_t column, uint16_t actual, double expected,
                 double bound);
  // Likewise of E4M3, where what is over 448 is 448.
  void near_e4m3(const char* what, ptrdiff_t row, ptrdiff_t column, float actual, double expected,
                 double bound);
  void equal(const char* what, ptrdiff_t row, ptrdiff_t column, double actual, double expected) {
    near(what, row, column, actual, expected, 0);
  }

  const KernelFinding& finding() const { return finding_; }

 private:
  struct Place {
    const char* what;
    ptrdiff_t row, column;
    double actual, expected;
  };
  void near_rounded(const Place& place, double step, double bound);
  void take(const Place& place, double error, double bound) {
    ++finding_.num_compared;
    if (error <= bound * finding_.worst) return;  // NaN goes on
    if (error > 0 || error != error) keep(place, error, bound);
  }
  void keep(const Place& place, double error, double bound);

  std::string shape_;
  KernelFinding finding_;
};

}  // namespace nibble::cuda::verify
