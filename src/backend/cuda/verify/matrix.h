// Random matrices that are packed on the GPU and decoded on the host, and their expected products.
#pragma once

#include <cmath>
#include <optional>
#include <vector>

#include "backend/cuda/chip/device.h"
#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/memory/pack.h"
#include "backend/cuda/verify/values.h"
#include "model/weights.h"

namespace nibble::cuda::verify {

// How block-scaled products (ptx/block_mma.cuh) are computed: the number of terms of each activation, and
// whether the mma instruction (are_native) or its software twin computes the products.
struct BlockProducts {
  int num_terms;
  bool are_native;
};

// Rows that multiply a matrix, in bfloat16 or block-scaled. `slack`: largest difference from the kernel's
// numbers. It is 0 for numbers that the kernel reads. If the kernel computes and rounds a number itself, it
// may round to an adjacent bfloat16.
struct Activations {
  Activations(int num_rows, int num_cols) : rows(num_rows), cols(num_cols), values(size()), slack(size()) {}
  Activations(int num_rows, int num_cols, const std::vector<uint16_t>& bf16)
      : Activations(num_rows, num_cols) {
    for (size_t i = 0; i < bf16.size(); ++i) values[i] = float_of(bf16[i]);
  }
  size_t size() const { return size_t{1} * rows * cols; }

  int rows, cols;
  std::vector<float> values, slack;  // [rows, cols]: activations; by how much the kernel's may differ
  std::optional<BlockProducts> block_products{};
};

// The products W x in double precision, and the largest permitted errors of a kernel's float32 results.
struct Products {
  int rows;
  std::vector<double> sums, bounds;  // [rows of x, rows of W]: the products; the largest permitted errors
  size_t at(int x_row, int row) const { return size_t{1} * x_row * rows + row; }
};

// Compares a kernel's sums of products and of `bias` (one number per row of W; empty: no bias). `actual(at)`
// returns the kernel's result at an index of Products::sums. Adding the bias may add two rounding errors to
// each of the two terms, together 2^-23 times the term's magnitude.
template <typename Actual>
void compare_products(Comparison& comparison, const char* what, const Products& expected,
                      const std::vector<float>& bias, const Actual& actual) {
  for (size_t at = 0; at < expected.sums.size(); ++at) {
    const int x_row = static_cast<int>(at) / expected.rows, row = static_cast<int>(at) % expected.rows;
    const double sum = expected.sums[at], b = bias.empty() ? 0 : bias[row];
    comparison.near({what, x_row, row}, actual(at), sum + b,
                    expected.bounds[at] + 0x1p-23 * (std::abs(sum) + std::abs(b)));
  }
}

enum class Origin {
  kStored,     // the checkpoint has this format
  kQuantised,  // the checkpoint has BF16, which is quantised at load
};

struct MatrixShape {
  int rows, cols;
  int num_matrices{1};
  RowOrder order{RowOrder::kAsStored};
  int max_segment_tiles{kMaxSegmentTiles};
};

struct RandomValues {
  Values values;
  uint64_t seed;
};

class TestMatrix {
 public:
  TestMatrix(Stream stream, Format format, Origin origin, const MatrixShape& shape,
             const RandomValues& random);

  const Strips& strips() const { return strips_; }
  Products times(const Activations& x, const std::vector<int>& x_rows, int matrix = 0) const;
  Products times(const Activations& x) const;

 private:
  void pack_bf16(Stream stream);
  void quantise_bf16(Stream stream);
  void pack_mxfp4(Stream stream);
  // Decodes a row without its E4M3 scale. Returns this scale, by which products must be multiplied.
  double decode(int matrix, int row, float* to) const;

  Format format_;
  MatrixShape shape_;
  Strips strips_;
  std::vector<uint16_t> bf16_;
  std::vector<uint8_t> codes_, scales_;  // codes and scales of E4M3 or MXFP4, as in a checkpoint
  std::vector<float> row_scales_;        // E4M3: [rows], the scale of each row
  DeviceBuffer packed_, device_row_scales_;
};

}  // namespace nibble::cuda::verify
