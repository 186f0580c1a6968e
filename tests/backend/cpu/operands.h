// Random operands: stored weights, their values in double, and activations in split order.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "backend/cpu/split_order.h"
#include "core/numbers/bf16.h"
#include "core/numbers/f16.h"
#include "core/numbers/random.h"
#include "model/weights.h"

namespace nibble::cpu {

// Initial value of every output.
inline constexpr float kPoison{std::numeric_limits<float>::quiet_NaN()};

// Returns values that are uniform in [-1, 1).
inline std::vector<float> random_floats(size_t count, uint64_t seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(2 * random_unit(seed, i) - 1);
  return values;
}

inline constexpr double kE2m1Values[]{0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};

// A matrix and its bytes. Moving this object keeps the matrix valid.
struct RandomMatrix {
  std::vector<uint8_t> bytes, scales;
  std::vector<float> row_scales;
  Matrix matrix;

  // Returns an element in double, computed from the definition of its format.
  double at(ptrdiff_t row, ptrdiff_t col) const {
    const ptrdiff_t i = row * matrix.cols + col;
    if (matrix.format() == Format::kBf16)
      return to_float(Bf16{static_cast<uint16_t>(bytes[2 * i] | bytes[2 * i + 1] << 8)});
    if (matrix.format() == Format::kE4m3) {
      const int exponent = bytes[i] >> 3 & 15, mantissa = bytes[i] & 7;
      const double magnitude =
          exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
      return (bytes[i] < 128 ? magnitude : -magnitude) * row_scales[row];
    }
    if (matrix.format() == Format::kQ8_0) {
      const uint8_t* block = &bytes[i / 32 * 34];
      return to_float(F16{static_cast<uint16_t>(block[0] | block[1] << 8)}) *
             static_cast<double>(static_cast<int8_t>(block[2 + i % 32]));
    }
    const int code = i % 2 == 0 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4;
    return kE2m1Values[code] * std::exp2(scales[i / 32] - 127);
  }
};

// Makes `num_matrices` consecutive matrices, as experts are stored, with elements of magnitude about 1.
inline RandomMatrix random_matrix(Format format, int rows, int cols, uint64_t seed, int num_matrices = 1) {
  RandomMatrix random;
  const size_t num_elements = size_t{1} * num_matrices * rows * cols;
  if (format == Format::kBf16) {
    for (const float value : random_floats(num_elements, seed)) {
      const uint16_t bits = to_bf16(value).bits;
      random.bytes.push_back(static_cast<uint8_t>(bits & 255));
      random.bytes.push_back(static_cast<uint8_t>(bits >> 8));
    }
  } else if (format == Format::kE4m3) {
    // Codes of magnitudes up to 2: subnormal numbers, but no NaN.
    for (size_t i = 0; i < num_elements; ++i)
      random.bytes.push_back(
          static_cast<uint8_t>(random_bits(seed, i) % 64 | random_bits(seed, i) >> 7 << 7));
    for (ptrdiff_t r = 0; r < ptrdiff_t{1} * num_matrices * rows; ++r)
      random.row_scales.push_back(static_cast<float>(0.5 + random_unit(seed + 1, r)));
  } else if (format == Format::kQ8_0) {
    for (size_t i = 0; i < num_elements / 32; ++i) {
      const uint16_t scale = to_f16(static_cast<float>(0.5 + random_unit(seed + 1, i)) / 128).bits;
      random.bytes.push_back(static_cast<uint8_t>(scale & 255));
      random.bytes.push_back(static_cast<uint8_t>(scale >> 8));
      for (size_t c = 0; c < 32; ++c)
        random.bytes.push_back(static_cast<uint8_t>(random_bits(seed, 32 * i + c) & 255));
    }
  } else {
    for (size_t i = 0; i < num_elements / 2; ++i)
      random.bytes.push_back(static_cast<uint8_t>(random_bits(seed, i) & 255));
    for (size_t i = 0; i < num_elements / 32; ++i)
      random.scales.push_back(static_cast<uint8_t>(121 + random_bits(seed + 1, i) % 8));
  }
  random.matrix = {rows, cols,
                   Elements{format, random.bytes.data(), random.scales.data(), random.row_scales.data()}};
  if (format == Format::kQ8_0)
    random.matrix.stored = Blocks{.rows = reinterpret_cast<const std::byte*>(random.bytes.data())};
  return random;
}

inline ExpertMatrices experts_of(const RandomMatrix& matrices, const std::vector<float>& biases) {
  return {matrices.matrix, {biases.data(), Format::kF32, matrices.matrix.rows}};
}
inline Vector vector_of(const std::vector<float>& elements) {
  return {elements.data(), Format::kF32, static_cast<int>(elements.size())};
}

// Returns rows of `width` elements in split order, padded with zeros.
inline std::vector<float> in_split_order(const std::vector<float>& rows, ptrdiff_t width) {
  const ptrdiff_t num_rows = std::ssize(rows) / width;
  std::vector<float> split(num_rows * padded(width));
  for (ptrdiff_t t = 0; t < num_rows; ++t)
    for (ptrdiff_t i = 0; i < width; ++i) split[t * padded(width) + split_index(i)] = rows[t * width + i];
  return split;
}

}  // namespace nibble::cpu
