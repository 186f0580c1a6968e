// Compares a kernel's results with expected results, and keeps the worst deviation.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "backend/backend.h"
#include "backend/kernel_check.h"
#include "core/errors/error.h"

namespace nibble::cuda::verify {

struct Element {
  const char* what;
  ptrdiff_t row, column;
};

class Comparison {
 public:
  // Runs body(), which launches a kernel and compares its results. `shape` describes the case in messages.
  // Throws InputError or BackendLost if the GPU fails.
  template <typename Body>
  void at(std::string shape, const Body& body) {
    shape_ = std::move(shape);
    try {
      body();
    } catch (const BackendLost& error) {
      throw BackendLost(fmt::format("{} at {}", error.what(), shape_));
    } catch (const InputError& error) {
      throw InputError("{} at {}", error.what(), shape_);
    }
  }

  // Requires |actual - expected| <= bound. A NaN fails.
  void near(const Element& element, double actual, double expected, double bound) {
    take({element, actual, expected}, std::abs(actual - expected), bound);
  }
  // Compares a number that the kernel has rounded to bfloat16: allows half a bfloat16 step more than `bound`.
  void near_bf16(const Element& element, uint16_t actual, double expected, double bound);
  // Compares a number that the kernel has rounded to E4M3: allows half an E4M3 step more than `bound`.
  // `expected` is limited to +-448, the range of E4M3.
  void near_e4m3(const Element& element, float actual, double expected, double bound);
  // Compares a number that the kernel has rounded to a multiple of `step`: allows half a step more than
  // `bound`.
  void near_step(const Element& element, double actual, double expected, double step, double bound);
  void equal(const char* what, ptrdiff_t row, ptrdiff_t column, double actual, double expected) {
    near({what, row, column}, actual, expected, 0);
  }

  const KernelFinding& finding() const { return finding_; }

 private:
  struct Compared {
    Element element;
    double actual, expected;
  };
  void take(const Compared& numbers, double error, double bound) {
    ++finding_.num_compared;
    if (error <= bound * finding_.worst) return;  // does not return if error is NaN
    if (error > 0 || error != error) keep(numbers, error, bound);
  }
  void keep(const Compared& numbers, double error, double bound);

  std::string shape_;
  KernelFinding finding_;
};

}  // namespace nibble::cuda::verify
