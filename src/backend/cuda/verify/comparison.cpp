#include "backend/cuda/verify/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/numbers/bf16.h"

namespace nibble::cuda::verify {
namespace {

// Returns the distance to the next bfloat16 of larger magnitude. The next bfloat16 of smaller magnitude is at
// most as far away.
double step_of(uint16_t bits) {
  const auto magnitude = static_cast<uint16_t>(bits & 0x7FFF);
  return double{to_float(Bf16{static_cast<uint16_t>(magnitude + 1)})} - double{to_float(Bf16{magnitude})};
}

}  // namespace

void Comparison::near_bf16(const Element& element, uint16_t actual, double expected, double bound) {
  const bool is_finite = (actual & 0x7FFF) < 0x7F80;
  near_step(element, to_float(Bf16{actual}), expected, is_finite ? step_of(actual) : 0, bound);
}

void Comparison::near_e4m3(const Element& element, float actual, double expected, double bound) {
  const double step = std::exp2(std::max(std::floor(std::log2(std::abs(double{actual}))), -6.0) - 3);
  near_step(element, actual, std::clamp(expected, -448.0, 448.0), step, bound);
}

void Comparison::near_step(const Element& element, double actual, double expected, double step,
                           double bound) {
  const double error = std::abs(actual - expected);
  take({element, actual, expected}, error <= step / 2 ? 0 : error - step / 2, bound);
}

void Comparison::keep(const Compared& numbers, double error, double bound) {
  const bool is_hopeless = !std::isfinite(error) || !(bound > 0) || !std::isfinite(bound);
  const double ratio = is_hopeless ? std::numeric_limits<double>::infinity() : error / bound;
  if (!(ratio > finding_.worst)) return;
  finding_.worst = ratio;
  finding_.at =
      fmt::format("{}: {}[{}, {}] is {:.9g}, expected {:.9g} within {:.2g}", shape_, numbers.element.what,
                  numbers.element.row, numbers.element.column, numbers.actual, numbers.expected, bound);
}

}  // namespace nibble::cuda::verify
