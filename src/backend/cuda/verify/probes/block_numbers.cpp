// Probes of block-scaled products: the value that they give for each code and scale, and the accuracy of
// their sums.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backend/cuda/verify/probes/block_probes.h"

namespace nibble::cuda::verify {
namespace {

using Result = ProbeFinding::Result;
using Warps = std::vector<WarpRegisters>;

// Returns element D[0][0] of a product with scale bytes {0, 0}.
float first_sum(const BlockMachine& machine, BlockForm form, const WarpRegisters& warp) {
  Warps after = machine.multiply(BlockProduct::kNative, form, {0, 0}, {warp});
  return d_at(after.front(), 0, 0);
}

float scaled_one(const BlockMachine& machine, BlockForm form, uint8_t a_scale, uint8_t b_scale) {
  WarpRegisters warp = zeros_with_scales_of_one();
  put_a(form, warp, 0, 0, one_of_a(form));
  put_b(form, warp, 0, 0, one_of_b(form));
  put_a_scale(warp, 0, 0, a_scale);
  put_b_scale(warp, 0, 0, b_scale);
  return first_sum(machine, form, warp);
}

// Adds a product of 2^-k to a D of 1, for k of 8 to 30. Returns the largest k for which D changes.
int bits_beside_a_sum(const BlockMachine& machine, BlockForm form) {
  int bits = 0;
  for (int k = 8; k <= 30; ++k) {
    WarpRegisters warp = zeros_with_scales_of_one();
    put_a(form, warp, 0, 0, one_of_a(form));
    put_b(form, warp, 0, 0, one_of_b(form));
    put_a_scale(warp, 0, 0, static_cast<uint8_t>(kScaleOfOne - k));
    d_at(warp, 0, 0) = 1;
    if (first_sum(machine, form, warp) != 1) bits = k;
  }
  return bits;
}

// Adds 1.5 * 2^-24 (3/4 of the distance to the next float32) to a D of 1. Returns whether D changes.
bool is_sum_rounded(const BlockMachine& machine, BlockForm form) {
  WarpRegisters warp = zeros_with_scales_of_one();
  put_a(form, warp, 0, 0, form == BlockForm::kMxfp8 ? 0x0C : 0x3);
  put_b(form, warp, 0, 0, one_of_b(form));
  put_a_scale(warp, 0, 0, static_cast<uint8_t>(kScaleOfOne - 24));
  d_at(warp, 0, 0) = 1;
  return first_sum(machine, form, warp) != 1;
}

// Sums one large product and others that are 2^k times smaller; float32 can hold the exact sum. Returns the
// largest k, up to kMostOfMxfp8 or kMostOfMxfp4, for which no small product is lost. In MXFP8 the small
// products have smaller codes (4 x 256 is the large product, 0.5 x 2^-9 the smallest). In MXFP4 they have a
// smaller scale, so they are in a second block.
constexpr int kMostOfMxfp8{20}, kMostOfMxfp4{28};
int bits_among_products(const BlockMachine& machine, BlockForm form) {
  int bits = 0;
  const bool is_wide = form == BlockForm::kMxfp8;
  for (int k = 8; k <= (is_wide ? kMostOfMxfp8 : kMostOfMxfp4); ++k) {
    WarpRegisters warp = zeros_with_scales_of_one();
    if (is_wide) {
      put_a(form, warp, 0, 0, 0x18);  // the code of 4
      put_b(form, warp, 0, 0, 0x78);  // the code of 256
      // The other 31 products are 2^(10 - k) each: A has 1 and B has 2^(10 - k). E4M3 cannot hold 2^-10, so
      // for k = 20 A has 0.5 and B has 2^-9.
      const int exponent = 10 - k;
      const uint32_t code = exponent >= -6   ? static_cast<uint32_t>(exponent + 7) << 3
                            : exponent >= -9 ? 1u << (exponent + 9)
                                             : 1u;
      for (int other = 1; other < 32; ++other) {
        put_a(form, warp, 0, other, k == kMostOfMxfp8 ? 0x04 : one_of_a(form));
        put_b(form, warp, 0, other, code);
      }
    } else {
      put_a_scale(warp, 0, 1, static_cast<uint8_t>(kScaleOfOne - k));
      for (int at = 0; at < 64; at += at == 0 ? 32 : 1) {
        put_a(form, warp, 0, at, one_of_a(form));
        put_b(form, warp, 0, at, one_of_b(form));
      }
    }
    const double expected = block_truth(form, 0, 0, warp).d[0][0];
    if (double{first_sum(machine, form, warp)} == expected) bits = k;
  }
  return bits;
}

// Returns the largest relative error (worst_share()) of random operands, over all pairs of scale bytes.
double worst_of_random(const BlockMachine& machine, BlockProduct product) {
  double worst = 0;
  for (const BlockForm form : kBlockForms)
    for (const ScaleBytes bytes : scale_bytes_of(form)) {
      Warps warps;
      for (uint64_t seed = 0; seed < 64; ++seed)
        warps.push_back(random_registers(form, seed, static_cast<int>(seed % 8)));
      worst = std::max(worst, worst_share(machine, product, form, bytes, warps));
    }
  return worst;
}

// Largest error of the twin, relative to the sum of magnitudes: 2^-23 per rounding. The twin multiplies a
// block of 32 columns with two mma.m16n8k16 instructions. Each truncates 18 numbers: 16 aligned products, the
// addend and the result. 3 more roundings are allowed for scaling the block's sum and adding it to D.
constexpr double kTwinBound{(2 * 18 + 3) * 0x1p-23};
// Largest error of the block-scaled mma instruction if its sums keep 13 bits, as sums of FP8 products do on
// Ada and Hopper (ask_sum_width()).
constexpr double kNativeBound{0x1p-10};

ProbeFinding products_finding(const BlockMachine& machine, BlockProduct product, Result as_expected,
                              double bound) {
  const double worst = worst_of_random(machine, product);
  return {worst <= bound ? as_expected : Result::kOther,
          fmt::format("within {:.2g} of the sum of magnitudes; {:.2g} is allowed", worst, bound),
          {{"worst_share", worst}, {"bound", bound}}};
}

}  // namespace

ProbeFinding ask_scale_values(const BlockMachine& machine) {
  for (const BlockForm form : kBlockForms)
    for (const bool is_a : {true, false})
      for (const int byte : {1, 126, 127, 128, 254, 255}) {
        const auto scale = static_cast<uint8_t>(byte);
        const float value = is_a ? scaled_one(machine, form, scale, kScaleOfOne)
                                 : scaled_one(machine, form, kScaleOfOne, scale);
        const bool is_right = byte == 255 ? std::isnan(value) : value == std::ldexp(1.0f, byte - 127);
        if (!is_right)
          return {Result::kOther,
                  fmt::format("{}: byte {} of {} is {}", name(form), byte, is_a ? "A" : "B", value)};
      }
  // Scale byte 0 is 2^-127. Alone it gives a subnormal float32; with a second scale of 2^127 it gives 1.
  const float alone = scaled_one(machine, BlockForm::kMxfp8, 0, kScaleOfOne),
              brought_back = scaled_one(machine, BlockForm::kMxfp8, 0, 254);
  return {machine.expected_answer(),
          fmt::format("2^(byte - 127), 255 is NaN; byte 0 is {}, its products are {}",
                      brought_back == 1   ? "2^-127"
                      : brought_back == 0 ? "0"
                                          : fmt::format("{} times 2^-127", brought_back),
                      alone == 0x1p-127f ? "kept below 2^-126" : "flushed below 2^-126"),
          {{"byte_0_times_2^127", brought_back}, {"byte_0", alone}}};
}

ProbeFinding ask_products(const BlockMachine& machine) {
  return products_finding(machine, BlockProduct::kNative, machine.expected_answer(),
                          machine.has_block_mma ? kNativeBound : kTwinBound);
}

ProbeFinding ask_twin(const BlockMachine& machine) {
  return products_finding(machine, BlockProduct::kTwin, Result::kOk, kTwinBound);
}

ProbeFinding ask_sum_width(const BlockMachine& machine) {
  ProbeFinding finding{machine.expected_answer(), {}};
  for (const BlockForm form : kBlockForms) {
    const int beside_sum = bits_beside_a_sum(machine, form), among = bits_among_products(machine, form);
    const bool is_rounded = is_sum_rounded(machine, form);
    const bool is_most = among == (form == BlockForm::kMxfp8 ? kMostOfMxfp8 : kMostOfMxfp4);
    finding.found += fmt::format("{}{}: {} bits with D, {}; {}{} among products",
                                 finding.found.empty() ? "" : "; ", name(form), beside_sum + 1,
                                 is_rounded ? "rounded" : "truncated", is_most ? "at least " : "", among + 1);
    finding.figures.push_back({fmt::format("{}_bits_with_d", name(form)), beside_sum + 1.0});
    finding.figures.push_back({fmt::format("{}_bits_among_products", name(form)), among + 1.0});
    finding.figures.push_back({fmt::format("{}_is_rounded", name(form)), is_rounded ? 1.0 : 0});
  }
  return finding;
}

// Compares the block-scaled instruction (QMMA.SF in SASS), with all scales 1, to the unscaled one (QMMA).
ProbeFinding ask_unit_scales(const BlockMachine& machine) {
  if (!machine.has_block_mma) return {Result::kMissing, "needs the instructions of sm_120a or sm_121a"};
  Warps warps;
  for (uint64_t seed = 0; seed < 256; ++seed) {
    WarpRegisters& warp = warps.emplace_back(random_registers(BlockForm::kMxfp8, seed, 0));
    for (auto& lane : warp.d)
      for (float& sum : lane) sum *= std::ldexp(1.0f, static_cast<int>(seed % 40) - 20);
  }
  const Warps scaled = machine.multiply(BlockProduct::kNative, BlockForm::kMxfp8, {0, 0}, warps),
              plain = machine.multiply(BlockProduct::kUnscaled, BlockForm::kMxfp8, {0, 0}, warps);
  int num_different = 0;
  for (size_t i = 0; i < warps.size(); ++i)
    for (int lane = 0; lane < 32; ++lane)
      for (int reg = 0; reg < 4; ++reg) num_different += scaled[i].d[lane][reg] != plain[i].d[lane][reg];
  const auto num_sums = static_cast<int>(128 * warps.size());
  return {
      Result::kOk,
      num_different == 0
          ? fmt::format("the bits of FP8 products without scales: {} sums", num_sums)
          : fmt::format("{} of {} sums differ from FP8 products without scales", num_different, num_sums),
      {{"num_different", static_cast<double>(num_different)}, {"num_sums", static_cast<double>(num_sums)}}};
}

}  // namespace nibble::cuda::verify
