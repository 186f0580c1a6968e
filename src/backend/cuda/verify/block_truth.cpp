#include "backend/cuda/verify/block_truth.h"

#include <cmath>

#include "core/numbers/e2m1.h"
#include "core/numbers/e4m3.h"
#include "core/numbers/e8m0.h"

namespace nibble::cuda::verify {
namespace {

struct DecodedElement {
  int lane, reg, code;  // lane of the warp; register of the lane; index of the code in the register
};
DecodedElement element_of_a(BlockForm form, int row, int k) {
  const int codes = form == BlockForm::kMxfp8 ? 4 : 8;  // codes per register
  const int half = contraction(form) / 2;
  return {row % 8 * 4 + k % half / codes, (row < 8 ? 0 : 1) + (k < half ? 0 : 2), k % codes};
}
DecodedElement element_of_b(BlockForm form, int column, int k) {
  const int codes = form == BlockForm::kMxfp8 ? 4 : 8;
  const int half = contraction(form) / 2;
  return {column * 4 + k % half / codes, k < half ? 0 : 1, k % codes};
}

double a_value(BlockForm form, const WarpRegisters& registers, int row, int k) {
  const DecodedElement at = element_of_a(form, row, k);
  const uint32_t word = registers.a[at.lane][at.reg];
  if (form == BlockForm::kMxfp8) return value_of_container(word >> 8 * at.code & 0xFF);
  return to_float(E2m1{static_cast<uint8_t>(word >> 4 * at.code & 0xF)});
}
double b_value(BlockForm form, const WarpRegisters& registers, int column, int k) {
  const DecodedElement at = element_of_b(form, column, k);
  const uint32_t word = registers.b[at.lane][at.reg];
  if (form == BlockForm::kMxfp8) return to_float(E4m3{static_cast<uint8_t>(word >> 8 * at.code & 0xFF)});
  return to_float(E2m1{static_cast<uint8_t>(word >> 4 * at.code & 0xF)});
}

// scale_lane_of_a() and scale_lane_of_b() return the lane that provides the scale of a row of A, or of a
// column of B. lane_of_d() and register_of_d() return the lane and the register of an element of the result
// D.
int scale_lane_of_a(int row) { return row % 8 * 4 + row / 8; }
int scale_lane_of_b(int column) { return column * 4; }
int lane_of_d(int row, int column) { return row % 8 * 4 + column / 2; }
int register_of_d(int row, int column) { return (row < 8 ? 0 : 2) + column % 2; }

void put(BlockForm form, uint32_t& word, int i, uint32_t code) {
  word |= code << (form == BlockForm::kMxfp8 ? 8 : 4) * i;
}
void put_byte(uint32_t& word, int byte, uint8_t value) {
  word = (word & ~(0xFFu << 8 * byte)) | uint32_t{value} << 8 * byte;
}

double scale(uint32_t word, int byte) {
  return to_float(E8m0{static_cast<uint8_t>(word >> 8 * byte & 0xFF)});
}

}  // namespace

double value_of_container(uint32_t byte) {
  const int exponent = static_cast<int>(byte >> 3 & 3), mantissa = static_cast<int>(byte & 7);
  const double magnitude = exponent == 0 ? mantissa / 8.0 : std::ldexp(1 + mantissa / 8.0, exponent - 1);
  return byte & 0x20 ? -magnitude : magnitude;
}

void put_a(BlockForm form, WarpRegisters& registers, int row, int k, uint32_t code) {
  const DecodedElement at = element_of_a(form, row, k);
  put(form, registers.a[at.lane][at.reg], at.code, code);
}
void put_b(BlockForm form, WarpRegisters& registers, int column, int k, uint32_t code) {
  const DecodedElement at = element_of_b(form, column, k);
  put(form, registers.b[at.lane][at.reg], at.code, code);
}
void put_a_scale(WarpRegisters& registers, int row, int byte, uint8_t scale) {
  put_byte(registers.a_scale[scale_lane_of_a(row)], byte, scale);
}
void put_b_scale(WarpRegisters& registers, int column, int byte, uint8_t scale) {
  put_byte(registers.b_scale[scale_lane_of_b(column)], byte, scale);
}
float& d_at(WarpRegisters& registers, int row, int column) {
  return registers.d[lane_of_d(row, column)][register_of_d(row, column)];
}

WarpProducts block_truth(BlockForm form, int a_byte, int b_byte, const WarpRegisters& registers) {
  WarpProducts products{};
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      const int lane = lane_of_d(row, column), reg = register_of_d(row, column);
      double& sum = products.d[lane][reg] = registers.d[lane][reg];
      double& magnitudes = products.magnitudes[lane][reg] = std::abs(sum);
      const uint32_t row_scales = registers.a_scale[scale_lane_of_a(row)],
                     column_scales = registers.b_scale[scale_lane_of_b(column)];
      for (int k = 0; k < contraction(form); ++k) {
        const double product = a_value(form, registers, row, k) * b_value(form, registers, column, k) *
                               scale(row_scales, a_byte + k / 32) * scale(column_scales, b_byte + k / 32);
        sum += product;
        magnitudes += std::abs(product);
      }
    }
  return products;
}

}  // namespace nibble::cuda::verify
