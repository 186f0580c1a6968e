// Values with which kernels are checked: random values, and values at which kernels tend to break.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/cuda/layout/activations.h"
#include "backend/cuda/verify/comparison.h"
#include "core/numbers/bf16.h"

namespace nibble::cuda::verify {

enum class Values {
  kTypical,   // uniform in (-1, 1)
  kZero,      // zeros of both signs
  kEqual,     // 0.5, so that every choice is a tie
  kDenormal,  // subnormal numbers of bfloat16
  kTiny,      // about 2^-40
  kHuge,      // about 2^30; MXFP4 scales near their maximum
  kMixed,     // magnitudes from 2^-24 to 2^24
};
inline constexpr Values kAllValues[]{Values::kTypical, Values::kZero, Values::kEqual, Values::kDenormal,
                                     Values::kTiny,    Values::kHuge, Values::kMixed};
const char* name(Values values);

inline constexpr int kHeadDim{64};  // elements of a query, key or value

std::vector<float> random_floats(Values values, uint64_t seed, size_t count);
std::vector<uint16_t> random_bf16(Values values, uint64_t seed, size_t count);

// A number that the host and a kernel compute and round. Before rounding, the host has `number`, and the
// kernel's number differs from it by at most `error`. After rounding, the host has `value`, and the kernel's
// number differs by at most `slack`, which is above 0 if the two may be rounded differently.
struct Rounded {
  float value, slack;
  double number, error;  // the host's number before rounding; a kernel's largest error before rounding
};
Rounded round_bf16(double number, double error);
Rounded round_e4m3(double number, double error);

inline float float_of(uint16_t bits) { return to_float(Bf16{bits}); }

// Return random codes (two per byte) and random E8M0 scales for MXFP4 blocks.
std::vector<uint8_t> random_codes(Values values, uint64_t seed, size_t count);
std::vector<uint8_t> random_scales(Values values, uint64_t seed, size_t count);

std::vector<int> numbers_below(int count);  // returns 0, 1, ..., count - 1

// Converts rows of `cols` columns to an image (layout/activations.h), and back. Row r of the result or of
// `rows` is row places[r] of the image. Without `places`, the image has the same rows, and zeros up to a
// multiple of 8 rows.
std::vector<uint16_t> to_image(const std::vector<uint16_t>& rows, int cols, const std::vector<int>& places,
                               int image_rows);
std::vector<uint16_t> to_image(const std::vector<uint16_t>& rows, int cols);
std::vector<uint16_t> from_image(const std::vector<uint16_t>& image, int cols,
                                 const std::vector<int>& places);
// Returns activations as a kernel's argument: an image of `image_rows` rows, or plain rows if that is 0.
inline cuda::Activations rows_or_image(__nv_bfloat16* data, int image_rows) {
  return image_rows ? cuda::Activations::image(data, image_rows) : data;
}
// Checks that the columns that pad a row's last tile are zero.
void check_padding(Comparison& comparison, const char* what, const std::vector<uint16_t>& image, int cols,
                   const std::vector<int>& places);

}  // namespace nibble::cuda::verify
