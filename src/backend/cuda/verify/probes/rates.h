// Measures how many matrix instructions of each kind an SM executes per clock.
#pragma once

#include "backend/cuda/chip/device.h"

namespace nibble::cuda::verify {

enum class RatedProduct {
  kBf16,   // HMMA in SASS, m16n8k16
  kE4m3,   // QMMA in SASS, m16n8k32
  kMxfp8,  // QMMA.SF in SASS, m16n8k32
  kMxfp4,  // OMMA.SF in SASS, m16n8k64
};
inline constexpr RatedProduct kRatedProducts[]{RatedProduct::kBf16, RatedProduct::kE4m3, RatedProduct::kMxfp8,
                                               RatedProduct::kMxfp4};
constexpr int operations(RatedProduct product) {  // per instruction; a multiply-add is 2 operations
  return 16 * 8 * 2 * (product == RatedProduct::kBf16 ? 16 : product == RatedProduct::kMxfp4 ? 64 : 32);
}

inline constexpr int kRateWarps{8}, kRateProducts{1 << 14};  // warps per CTA; instructions per warp

// One CTA runs per SM. `clocks`: cycles that each CTA took; 0 if this GPU's code lacks the instruction.
struct RateArgs {
  RatedProduct product;
  long long* clocks;
  float* sums;  // never written, but prevents the compiler from removing the products
};
void measure_rate(Stream stream, const RateArgs& args);

}  // namespace nibble::cuda::verify
