#include "backend/cuda/verify/matrix.h"

#include <algorithm>

#include "backend/cuda/chip/wait.h"
#include "backend/cuda/layout/layout_of.h"
#include "backend/cuda/ptx/block_codes.h"
#include "backend/cuda/verify/device_array.h"
#include "backend/cuda/verify/host_threads.h"
#include "core/errors/check.h"
#include "core/numbers/e4m3.h"
#include "formats/mxfp4.h"
#include "model/quantize.h"

namespace nibble::cuda::verify {
namespace {

size_t size_of(int a, int b, int c = 1) { return size_t{1} * a * b * c; }

// Returns the largest error of a sum, relative to the sum of magnitudes: 2^-23 per rounding. Per 16 columns,
// the tensor cores align 16 products and the addend to the largest of the 17. They truncate these 17 numbers
// and the result: 18 truncations. A tile has 4 times 16 columns. Each segment's sum is rounded once more when
// it is added.
double relative_bound(const Strips& strips) {
  constexpr double kProduct{18};
  return (4 * kProduct * strips.segment_tiles + strips.num_segments) * 0x1p-23;
}

// Returns the error bound of block-scaled products. The magnitudes of an activation's two terms may add up to
// three times the activation's, if the first term is E4M3's smallest number. The twin takes 32
// columns per step, with two mma.m16n8k16 instructions of 18 truncations each, and rounds its running sum
// once per step. The accuracy of the block-scaled mma instruction is undocumented. Its sums are assumed to
// keep 13 bits of the largest product or addend, as sums of FP8 products do on Ada and Hopper. The bound for
// this is 2^-10 of the sum of magnitudes per step.
double relative_bound(const Strips& strips, const BlockProducts& products) {
  const int num_steps = 2 * products.num_terms * strips.segment_tiles;  // a step takes 32 columns of one term
  const double magnitudes = products.num_terms == 2 ? 3 : 1;
  const double of_segment = products.are_native ? (num_steps + 2) * 0x1p-10 : (2 * 18 + num_steps) * 0x1p-23;
  return magnitudes * (of_segment + strips.num_segments * 0x1p-23);
}

// Returns the largest error due to products below the smallest normal float32 (2^-126), which tensor cores
// may flush to zero.
double absolute_bound(int cols) { return cols * 0x1p-125; }

// Limits a bfloat16's exponent to the largest that an MXFP4 weight may have: kLargestScale plus 2, because
// the largest code is 6 (1.5 * 2^2).
uint16_t below_largest_scale(uint16_t bits) {
  constexpr int kLargest{kLargestScale + 2};
  return (bits >> 7 & 0xFF) > kLargest ? static_cast<uint16_t>((bits & 0x807F) | kLargest << 7) : bits;
}

}  // namespace

TestMatrix::TestMatrix(Stream stream, Format format, Origin origin, const MatrixShape& shape,
                       const RandomValues& random)
    : format_(format),
      shape_(shape),
      strips_(make_strips(layout_of(format), shape.rows, shape.cols, shape.max_segment_tiles)),
      packed_(shape.num_matrices * strips_.matrix_bytes()) {
  const size_t count = size_of(shape.rows, shape.cols, shape.num_matrices);
  strips_.data = packed_.as<uint8_t>();
  check(cudaMemsetAsync(packed_.as<void>(), 0xFF, packed_.bytes(), stream), "poisoning");
  if (format == Format::kMxfp4 && origin == Origin::kStored) {
    codes_ = random_codes(random.values, random.seed, count / 2);
    scales_ = random_scales(random.values, random.seed + 1, count / kMxfp4BlockSize);
    pack_mxfp4(stream);
  } else {
    bf16_ = random_bf16(random.values, random.seed, count);
    if (format == Format::kMxfp4)
      for (uint16_t& bits : bf16_) bits = below_largest_scale(bits);
    format == Format::kBf16 ? pack_bf16(stream) : quantise_bf16(stream);
  }
}

void TestMatrix::pack_bf16(Stream stream) {
  const DeviceArray<uint16_t> stored(bf16_);
  pack(stream, PackBf16Args{stored.data(), 0, shape_.rows, shape_.cols, strips_});
  wait_for_stream(stream, "packing weights");
}

// Quantises the matrix twice: on the GPU with quantise(), as at load, and on the host with encode_mxfp4() or
// quantise_e4m3(). Expected products are computed from the host's codes.
void TestMatrix::quantise_bf16(Stream stream) {
  const size_t cols = shape_.cols;
  const bool is_mxfp4 = format_ == Format::kMxfp4;
  codes_.resize(is_mxfp4 ? bf16_.size() / 2 : bf16_.size());
  scales_.resize(is_mxfp4 ? bf16_.size() / kMxfp4BlockSize : 0);
  row_scales_.resize(is_mxfp4 ? 0 : shape_.rows);
  host_threads().for_each(shape_.rows, [&](ptrdiff_t row, int) {
    const size_t first = row * cols;
    std::vector<float> values(cols);
    std::transform(bf16_.data() + first, bf16_.data() + first + cols, values.data(), float_of);
    if (is_mxfp4)
      encode_mxfp4(values, std::span(codes_).subspan(first / 2, cols / 2),
                   std::span(scales_).subspan(first / kMxfp4BlockSize, cols / kMxfp4BlockSize));
    else
      row_scales_[row] = quantise_e4m3(values, std::span(codes_).subspan(first, cols));
  });
  if (!is_mxfp4) {
    device_row_scales_ = DeviceBuffer(row_scales_.size() * sizeof(float));
    strips_.row_scales = device_row_scales_.as<float>();
  }
  const DeviceArray<uint16_t> stored(bf16_);
  const DeviceArray<int> largest_scale(std::vector<int>{0});
  quantise(stream, PackBf16Args{stored.data(), 0, shape_.rows, shape_.cols, strips_, largest_scale.data()});
  wait_for_stream(stream, "quantising weights");
}

void TestMatrix::pack_mxfp4(Stream stream) {
  const DeviceArray<uint8_t> codes(codes_), scales(scales_);
  const DeviceArray<int> largest_scale(std::vector<int>{0});
  pack(stream, {codes.data(), scales.data(), shape_.num_matrices, shape_.rows, shape_.cols, shape_.order,
                strips_, packed_.as<uint8_t>(), largest_scale.data()});
  wait_for_stream(stream, "packing weights");
}

double TestMatrix::decode(int matrix, int row, float* to) const {
  const size_t cols = shape_.cols;
  const size_t first = size_of(matrix, shape_.rows, shape_.cols) + size_of(row, shape_.cols);
  if (format_ == Format::kMxfp4) {
    decode_mxfp4(std::span(codes_).subspan(first / 2, cols / 2),
                 std::span(scales_).subspan(first / kMxfp4BlockSize, cols / kMxfp4BlockSize), {to, cols});
  } else if (format_ == Format::kE4m3) {
    std::transform(codes_.data() + first, codes_.data() + first + cols, to,
                   [](uint8_t code) { return to_float(E4m3{code}); });
    return row_scales_[row];
  } else {
    std::transform(bf16_.data() + first, bf16_.data() + first + cols, to, float_of);
  }
  return 1;
}

Products TestMatrix::times(const Activations& x, const std::vector<int>& x_rows, int matrix) const {
  NIBBLE_CHECK(x.cols == shape_.cols, "{} columns, {} in the matrix", x.cols, shape_.cols);
  const size_t cols = shape_.cols;
  const double relative =
      x.block_products ? relative_bound(strips_, *x.block_products) : relative_bound(strips_);
  Products products{shape_.rows, {}, {}};
  products.sums.resize(x_rows.size() * shape_.rows);
  products.bounds.resize(products.sums.size());
  host_threads().for_each(shape_.rows, [&](ptrdiff_t row, int) {
    std::vector<float> weights(cols);
    const double scale = decode(matrix, static_cast<int>(row), weights.data());
    for (size_t t = 0; t < x_rows.size(); ++t) {
      const float* values = x.values.data() + x_rows[t] * cols;
      const float* slack = x.slack.data() + x_rows[t] * cols;
      double sum = 0, magnitudes = 0, slacks = 0;
      for (size_t i = 0; i < cols; ++i) {
        const double product = double{weights[i]} * double{values[i]};
        sum += product;
        magnitudes += std::abs(product);
        slacks += std::abs(double{weights[i]}) * double{slack[i]};
      }
      const size_t at = products.at(static_cast<int>(t), static_cast<int>(row));
      products.sums[at] = scale * sum;
      // Kernels multiply a sum of E4M3 weights with the row's scale, which rounds once more.
      products.bounds[at] = scale * (relative * magnitudes + slacks + absolute_bound(shape_.cols)) +
                            (format_ == Format::kE4m3 ? 0x1p-24 * scale * std::abs(sum) + 0x1p-126 : 0);
    }
  });
  return products;
}

Products TestMatrix::times(const Activations& x) const { return times(x, numbers_below(x.rows)); }

}  // namespace nibble::cuda::verify
