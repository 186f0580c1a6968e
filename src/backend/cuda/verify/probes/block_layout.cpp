// Probes where a block-scaled product reads its operands. All numbers are small integers, so sums are exact.
#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/verify/probes/block_probes.h"

namespace nibble::cuda::verify {
namespace {

using Result = ProbeFinding::Result;
using Warps = std::vector<WarpRegisters>;

ProbeFinding layout_finding(const BlockMachine& machine, const std::string& difference,
                            std::string as_documented) {
  if (!difference.empty()) return {Result::kOther, difference};
  return {machine.expected_answer(), std::move(as_documented)};
}

// A probe multiplies two matrices. One has a single 1; the other has a 1 wherever this function returns true.
// If A has the single 1, in row m and column k, `row` is a column of B. Then row m of D is the only row that
// is not zero: its elements 0 to 5 are the bits of k, and element 6 is 1. So D shows m and k. If B has the
// single 1, in row k and column n, `row` is a row of A, and column n of D has these elements.
bool spells_one(int row, int k) { return row < 6 ? (k >> row & 1) != 0 : row == 6; }

// single_codes_in_a() and single_codes_in_b() return the operands of products in which A (or B) has a single
// 1: one product for each place of a code in the registers of a warp.
Warps single_codes_in_a(BlockForm form) {
  WarpRegisters b = zeros_with_scales_of_one();
  for (int column = 0; column < 8; ++column)
    for (int k = 0; k < contraction(form); ++k)
      if (spells_one(column, k)) put_b(form, b, column, k, one_of_b(form));
  Warps warps;
  const int bits = form == BlockForm::kMxfp8 ? 8 : 4;
  for (int lane = 0; lane < 32; ++lane)
    for (int reg = 0; reg < 4; ++reg)
      for (int shift = 0; shift < 32; shift += bits)
        warps.emplace_back(b).a[lane][reg] = one_of_a(form) << shift;
  return warps;
}
Warps single_codes_in_b(BlockForm form) {
  WarpRegisters a = zeros_with_scales_of_one();
  for (int row = 0; row < 16; ++row)
    for (int k = 0; k < contraction(form); ++k)
      if (spells_one(row, k)) put_a(form, a, row, k, one_of_a(form));
  Warps warps;
  const int bits = form == BlockForm::kMxfp8 ? 8 : 4;
  for (int lane = 0; lane < 32; ++lane)
    for (int reg = 0; reg < 2; ++reg)
      for (int shift = 0; shift < 32; shift += bits)
        warps.emplace_back(a).b[lane][reg] = one_of_b(form) << shift;
  return warps;
}

// Returns operands A and B of ones. D's elements start with the numbers 0 to 127.
WarpRegisters ones(BlockForm form) {
  WarpRegisters warp = zeros_with_scales_of_one();
  for (int k = 0; k < contraction(form); ++k) {
    for (int row = 0; row < 16; ++row) put_a(form, warp, row, k, one_of_a(form));
    for (int column = 0; column < 8; ++column) put_b(form, warp, column, k, one_of_b(form));
  }
  for (int i = 0; i < 128; ++i) warp.d[i / 4][i % 4] = static_cast<float>(i);
  return warp;
}

}  // namespace

ProbeFinding ask_places(const BlockMachine& machine) {
  size_t num_places = 0;
  for (const BlockForm form : kBlockForms)
    for (const Warps& warps : {single_codes_in_a(form), single_codes_in_b(form), Warps{ones(form)}}) {
      num_places += warps.size();
      if (const std::string difference = first_difference(machine, form, {0, 0}, warps); !difference.empty())
        return layout_finding(machine, difference, {});
    }
  return layout_finding(machine, {}, fmt::format("A, B and D as documented: {} products", num_places));
}

// Checks to which rows or columns each lane's scales apply. In each product, one scale byte of one lane
// stands for 2, and all other scale bytes stand for 1.
ProbeFinding ask_scale_lanes(const BlockMachine& machine) {
  size_t num_products = 0;
  for (const BlockForm form : kBlockForms) {
    Warps warps;
    for (int lane = 0; lane < 32; ++lane)
      for (int byte = 0; byte < 4; ++byte) {
        warps.emplace_back(ones(form)).a_scale[lane] += 1u << 8 * byte;
        warps.emplace_back(ones(form)).b_scale[lane] += 1u << 8 * byte;
      }
    for (const ScaleBytes bytes : scale_bytes_of(form)) {
      num_products += warps.size();
      if (const std::string difference = first_difference(machine, form, bytes, warps); !difference.empty())
        return layout_finding(machine, difference, {});
    }
  }
  return layout_finding(
      machine, {}, fmt::format("lanes 4 (m % 8) + m / 8 and 4 n, others ignored: {} products", num_products));
}

// Checks which scale bytes of a register a product uses. The bytes stand for different small powers of two. D
// starts at 0, so sums of 32 or 64 products are exact.
ProbeFinding ask_scale_bytes(const BlockMachine& machine) {
  for (const BlockForm form : kBlockForms) {
    WarpRegisters warp = ones(form);
    for (int lane = 0; lane < 32; ++lane) {
      std::fill_n(warp.d[lane], 4, 0.0f);
      for (int byte = 0; byte < 4; ++byte) {
        warp.a_scale[lane] += static_cast<uint32_t>((lane + lane / 4 + byte) % 4) << 8 * byte;
        warp.b_scale[lane] += static_cast<uint32_t>((lane + lane / 4 + 2 * byte) % 7) << 8 * byte;
      }
    }
    for (const ScaleBytes bytes : scale_bytes_of(form))
      if (const std::string difference = first_difference(machine, form, bytes, {warp}); !difference.empty())
        return layout_finding(machine, difference, {});
  }
  return layout_finding(machine, {}, "bytes 0-3, in MXFP4 0-1 and 2-3 for columns 0-31 and 32-63");
}

// Checks that the E2M1 code of a container is read from bits 5-2, and finds whether the other bits have an
// effect.
ProbeFinding ask_containers(const BlockMachine& machine) {
  constexpr BlockForm kForm{BlockForm::kMxfp8};
  Warps warps;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    WarpRegisters& warp = warps.emplace_back(zeros_with_scales_of_one());
    put_a(kForm, warp, 0, 0, byte);
    put_b(kForm, warp, 0, 0, one_of_b(kForm));
  }
  Warps after = machine.multiply(BlockProduct::kNative, kForm, {0, 0}, warps);
  bool are_low_bits_read = true, are_low_bits_ignored = true, are_high_bits_ignored = true;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const double value = d_at(after[byte], 0, 0);
    if (const double expected = value_of_container(byte); byte % 4 == 0 && byte < 64 && value != expected)
      return {Result::kOther, fmt::format("container {:#04x} is {}, expected {}", byte, value, expected)};
    if (byte < 64) are_low_bits_read &= value == value_of_container(byte);
    if (byte < 64) are_low_bits_ignored &= value == value_of_container(byte & ~3u);
    are_high_bits_ignored &= value == double{d_at(after[byte & 63], 0, 0)};
  }
  return {
      machine.expected_answer(),
      fmt::format("E2M1 at bits 5-2; bits 1-0 are {}; bits 7-6 are {}",
                  are_low_bits_read      ? "more mantissa"
                  : are_low_bits_ignored ? "ignored"
                                         : "something else",
                  are_high_bits_ignored ? "ignored" : "read"),
      {{"low_bits_read", are_low_bits_read ? 1.0 : 0}, {"high_bits_read", are_high_bits_ignored ? 0.0 : 1}}};
}

}  // namespace nibble::cuda::verify
