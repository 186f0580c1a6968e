// Divides numbers below 2^31 by a divisor that the host knows. A kernel starts with several dependent
// divisions; each would take about a hundred cycles. The multiplication used here takes four cycles. CUDA
// code includes this header, so it must compile as C++17.
#pragma once

#include <cstdint>

namespace nibble::cuda {

// Results are exact for dividends below 2^31 (Granlund, Montgomery: Division by Invariant Integers using
// Multiplication).
class Divisor {
 public:
  constexpr Divisor() = default;
  // The divisor may be 1 to 2^31.
  explicit constexpr Divisor(unsigned divisor) : divisor_(divisor) {
    while ((uint64_t{1} << shift_) < divisor) ++shift_;
    factor_ = static_cast<unsigned>((uint64_t{1} << 32) * ((uint64_t{1} << shift_) - divisor) / divisor + 1);
  }
  constexpr unsigned quotient(unsigned n) const {
    return (static_cast<unsigned>(uint64_t{n} * factor_ >> 32) + n) >> shift_;
  }
  constexpr unsigned remainder(unsigned n) const { return n - quotient(n) * divisor_; }

 private:
  unsigned divisor_{1}, factor_{1}, shift_{0};
};

}  // namespace nibble::cuda
