#include "backend/cuda/verify/values.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/cuda/ptx/block_codes.h"
#include "backend/cuda/verify/host_threads.h"
#include "core/errors/check.h"
#include "core/numbers/e4m3.h"
#include "core/numbers/random.h"

namespace nibble::cuda::verify {
namespace {

double value_of(Values values, uint64_t seed, size_t i) {
  const double x = 2 * random_unit(seed, i) - 1;
  switch (values) {
    case Values::kTypical:
      return x;
    case Values::kZero:
      return std::copysign(0.0, x);
    case Values::kEqual:
      return 0.5;
    case Values::kDenormal:
      return x * 0x1p-127;
    case Values::kTiny:
      return x * 0x1p-40;
    case Values::kHuge:
      return x * 0x1p30;
    case Values::kMixed:
      return std::ldexp(x, static_cast<int>(random_bits(seed + 1, i) % 49) - 24);
  }
  NIBBLE_CHECK(false, "values {}", static_cast<int>(values));
}

template <typename T, typename Element>
std::vector<T> fill(size_t count, const Element& element) {
  constexpr size_t kPiece{1 << 16};
  std::vector<T> elements(count);
  host_threads().for_each(static_cast<ptrdiff_t>((count + kPiece - 1) / kPiece), [&](ptrdiff_t piece, int) {
    const size_t first = piece * kPiece;
    for (size_t i = first; i < std::min(count, first + kPiece); ++i) elements[i] = element(i);
  });
  return elements;
}

template <typename ToFormat>
Rounded round(double number, double error, const ToFormat& to_format) {
  const auto rounded = [&](double x) { return to_format(static_cast<float>(x)); };
  const float value = rounded(number);
  return {value, std::max(rounded(number + error) - value, value - rounded(number - error)), number, error};
}

}  // namespace

const char* name(Values values) {
  constexpr const char* kNames[]{"typical", "zero", "equal", "denormal", "tiny", "huge", "mixed"};
  return kNames[static_cast<int>(values)];
}

Rounded round_bf16(double number, double error) {
  return round(number, error, [](float x) { return to_float(to_bf16(x)); });
}
Rounded round_e4m3(double number, double error) {
  return round(number, error, [](float x) { return to_float(to_e4m3(x)); });
}

std::vector<float> random_floats(Values values, uint64_t seed, size_t count) {
  return fill<float>(count, [=](size_t i) { return static_cast<float>(value_of(values, seed, i)); });
}

std::vector<uint16_t> random_bf16(Values values, uint64_t seed, size_t count) {
  return fill<uint16_t>(
      count, [=](size_t i) { return to_bf16(static_cast<float>(value_of(values, seed, i))).bits; });
}

std::vector<uint8_t> random_codes(Values values, uint64_t seed, size_t count) {
  return fill<uint8_t>(count, [=](size_t i) -> uint8_t {
    const auto bits = static_cast<uint8_t>(random_bits(seed, i));
    return values == Values::kZero ? bits & 0x88 : values == Values::kEqual ? 0x11 : bits;
  });
}

std::vector<uint8_t> random_scales(Values values, uint64_t seed, size_t count) {
  struct Range {
    int first, count;
  };
  constexpr Range kRanges[]{{120, 6},                   // kTypical
                            {0, kLargestScale + 1},     // kZero
                            {127, 1},                   // kEqual
                            {1, 4},                     // kDenormal
                            {60, 10},                   // kTiny
                            {kLargestScale - 9, 10},    // kHuge
                            {kLargestScale - 60, 61}};  // kMixed
  const Range range = kRanges[static_cast<int>(values)];
  return fill<uint8_t>(count, [=](size_t i) {
    return static_cast<uint8_t>(range.first +
                                static_cast<int>(random_bits(seed, i) % static_cast<unsigned>(range.count)));
  });
}

std::vector<int> numbers_below(int count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::vector<uint16_t> to_image(const std::vector<uint16_t>& rows, int cols, const std::vector<int>& places,
                               int image_rows) {
  std::vector<uint16_t> image(image_bytes(image_rows, cols) / 2, 0);
  for (size_t row = 0; row < places.size(); ++row)
    for (int col = 0; col < cols; ++col)
      image[element_of(places[row], col / kTileCols, 0, image_rows, col)] = rows[row * cols + col];
  return image;
}

std::vector<uint16_t> to_image(const std::vector<uint16_t>& rows, int cols) {
  const int num_rows = static_cast<int>(rows.size()) / cols;
  return to_image(rows, cols, numbers_below(num_rows), whole_eights(num_rows));
}

void check_padding(Comparison& comparison, const char* what, const std::vector<uint16_t>& image, int cols,
                   const std::vector<int>& places) {
  const auto image_rows = static_cast<int>(image.size() * 2 / image_bytes(1, cols));
  for (size_t row = 0; row < places.size(); ++row)
    for (int col = cols; col < padded_cols(cols); ++col)
      comparison.equal(what, row, col, image[element_of(places[row], col / kTileCols, 0, image_rows, col)],
                       0);
}

std::vector<uint16_t> from_image(const std::vector<uint16_t>& image, int cols,
                                 const std::vector<int>& places) {
  const auto image_rows = static_cast<int>(image.size() * 2 / image_bytes(1, cols));
  std::vector<uint16_t> rows;
  for (const int row : places)
    for (int col = 0; col < cols; ++col)
      rows.push_back(image[element_of(row, col / kTileCols, 0, image_rows, col)]);
  return rows;
}

}  // namespace nibble::cuda::verify
