// Tests the probes of block-scaled mma on simulated GPUs: one that behaves as documented, and others that
// behave differently. Needs no GPU.
#include "backend/cuda/verify/probes/block_probes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace nibble::cuda::verify {
namespace {

using Result = ProbeFinding::Result;
using testing::HasSubstr;

// Returns a simulated GPU that passes the operands through `misread`, adds in double and rounds to float32.
template <typename Misread>
BlockMachine machine_that(const Misread& misread) {
  return {true, [misread](BlockProduct, BlockForm form, ScaleBytes bytes, std::vector<WarpRegisters> warps) {
            for (WarpRegisters& warp : warps) {
              WarpRegisters read = warp;
              misread(form, read, bytes);
              const WarpProducts truth = block_truth(form, bytes.a, bytes.b, read);
              for (int lane = 0; lane < 32; ++lane)
                for (int i = 0; i < 4; ++i) warp.d[lane][i] = static_cast<float>(truth.d[lane][i]);
            }
            return warps;
          }};
}
BlockMachine documented_machine() {
  return machine_that([](BlockForm, WarpRegisters&, ScaleBytes&) {});
}

double figure(const ProbeFinding& finding, std::string_view name) {
  for (const ProbeFinding::Figure& each : finding.figures)
    if (each.name == name) return each.value;
  ADD_FAILURE() << "no figure " << name;
  return 0;
}

constexpr auto kBlockQuestions = {&ask_places,       &ask_scale_lanes, &ask_scale_bytes, &ask_containers,
                                  &ask_scale_values, &ask_products,    &ask_twin};

TEST(CudaBlockProbes, AGpuAsDocumentedIsOk) {
  const BlockMachine machine = documented_machine();
  for (const auto ask : kBlockQuestions) EXPECT_EQ(ask(machine).result, Result::kOk) << ask(machine).found;
  EXPECT_THAT(ask_containers(machine).found, HasSubstr("bits 1-0 are more mantissa; bits 7-6 are ignored"));
  EXPECT_THAT(ask_scale_values(machine).found, HasSubstr("byte 0 is 2^-127, its products are kept"));
  EXPECT_THAT(ask_unit_scales(machine).found, HasSubstr("without scales: 32768 sums"));
}

TEST(CudaBlockProbes, AnswersOfATwinAreMarked) {
  BlockMachine machine = documented_machine();
  machine.has_block_mma = false;
  EXPECT_EQ(ask_places(machine).result, Result::kTwin);
  EXPECT_EQ(ask_containers(machine).result, Result::kTwin);
  EXPECT_EQ(ask_sum_width(machine).result, Result::kTwin);
  EXPECT_EQ(ask_twin(machine).result, Result::kOk);
  EXPECT_EQ(ask_unit_scales(machine).result, Result::kMissing);
}

TEST(CudaBlockProbes, AnotherOrderOfRegistersIsNoticed) {
  const BlockMachine a = machine_that([](BlockForm, WarpRegisters& warp, ScaleBytes&) {
    for (auto& lane : warp.a) std::swap(lane[1], lane[2]);
  });
  const BlockMachine b = machine_that([](BlockForm, WarpRegisters& warp, ScaleBytes&) {
    for (auto& lane : warp.b) std::swap(lane[0], lane[1]);
  });
  EXPECT_EQ(ask_places(a).result, Result::kOther);
  EXPECT_EQ(ask_places(b).result, Result::kOther);
  EXPECT_EQ(ask_products(a).result, Result::kOther);
}

TEST(CudaBlockProbes, AnotherOrderOfBytesIsNoticed) {
  const BlockMachine machine = machine_that([](BlockForm form, WarpRegisters& warp, ScaleBytes&) {
    const uint32_t first = form == BlockForm::kMxfp8 ? 0xFF : 0xF;
    const int bits = form == BlockForm::kMxfp8 ? 8 : 4;
    // Swaps the first two codes of B only.
    for (auto& lane : warp.b)
      for (uint32_t& word : lane)
        word = (word & ~(first | first << bits)) | (word & first) << bits | (word >> bits & first);
  });
  EXPECT_EQ(ask_places(machine).result, Result::kOther);
}

TEST(CudaBlockProbes, ScalesOfOtherLanesAreNoticed) {
  // One published note places B's scales in lane 4 n + 2.
  const BlockMachine b = machine_that([](BlockForm, WarpRegisters& warp, ScaleBytes&) {
    for (int column = 0; column < 8; ++column) warp.b_scale[4 * column] = warp.b_scale[4 * column + 2];
  });
  const BlockMachine a = machine_that([](BlockForm, WarpRegisters& warp, ScaleBytes&) {
    for (int row = 0; row < 8; ++row) std::swap(warp.a_scale[4 * row], warp.a_scale[4 * row + 1]);
  });
  for (const BlockMachine& machine : {a, b}) {
    EXPECT_EQ(ask_scale_lanes(machine).result, Result::kOther);
    EXPECT_EQ(ask_scale_bytes(machine).result, Result::kOther);
    EXPECT_EQ(ask_products(machine).result, Result::kOther);
    EXPECT_EQ(ask_places(machine).result, Result::kOk);  // correct, because all scales are 1 here
  }
}

TEST(CudaBlockProbes, OtherBytesOfScalesAreNoticed) {
  const BlockMachine machine = machine_that([](BlockForm form, WarpRegisters&, ScaleBytes& bytes) {
    if (form == BlockForm::kMxfp8 && bytes.a == 3) bytes.a = 2;
  });
  EXPECT_EQ(ask_scale_bytes(machine).result, Result::kOther);
}

TEST(CudaBlockProbes, AnotherPlaceOfNibblesIsNoticed) {
  const BlockMachine low = machine_that([](BlockForm form, WarpRegisters& warp, ScaleBytes&) {
    if (form == BlockForm::kMxfp8)
      for (auto& lane : warp.a)
        for (uint32_t& word : lane) word = (word & 0x0F0F0F0Fu) << 2;
  });
  EXPECT_EQ(ask_containers(low).result, Result::kOther);
  const BlockMachine four_bits = machine_that([](BlockForm form, WarpRegisters& warp, ScaleBytes&) {
    if (form == BlockForm::kMxfp8)
      for (auto& lane : warp.a)
        for (uint32_t& word : lane) word &= 0x3C3C3C3Cu;
  });
  EXPECT_EQ(ask_containers(four_bits).result, Result::kOk);
  EXPECT_THAT(ask_containers(four_bits).found, HasSubstr("bits 1-0 are ignored"));
}

TEST(CudaBlockProbes, AnotherBiasOfScalesIsNoticed) {
  const BlockMachine machine = machine_that([](BlockForm, WarpRegisters& warp, ScaleBytes&) {
    for (uint32_t& word : warp.a_scale) word = word - 0x01010101u;  // as if the bias was 128
  });
  EXPECT_EQ(ask_scale_values(machine).result, Result::kOther);
}

// Returns a simulated GPU whose adder keeps `bits` bits, counted from the top bit of the largest term. Each
// term (a product of two elements, or the accumulator D) is truncated to these bits before the terms are
// added.
BlockMachine machine_of_width(int bits) {
  return {true, [bits](BlockProduct, BlockForm form, ScaleBytes bytes, std::vector<WarpRegisters> warps) {
            for (WarpRegisters& warp : warps) {
              // Computes each product alone by clearing all other columns of A.
              std::vector<double> terms{d_at(warp, 0, 0)};
              for (int code = 0; code < contraction(form); ++code) {
                WarpRegisters one = warp;
                const int width = form == BlockForm::kMxfp8 ? 8 : 4, codes = 32 / width;
                const int half = code / (contraction(form) / 2), at = code % (contraction(form) / 2);
                for (int lane = 0; lane < 32; ++lane)
                  for (int reg = 0; reg < 4; ++reg)
                    one.a[lane][reg] &= lane % 4 == at / codes && reg / 2 == half
                                            ? ((1u << width) - 1) << width * (at % codes)
                                            : 0;
                d_at(one, 0, 0) = 0;
                terms.push_back(block_truth(form, bytes.a, bytes.b, one).d[0][0]);
              }
              double largest = 0, sum = 0;
              for (const double term : terms) largest = std::max(largest, std::abs(term));
              const double unit = std::exp2(std::floor(std::log2(largest)) - (bits - 1));
              for (const double term : terms) sum += std::trunc(term / unit) * unit;
              d_at(warp, 0, 0) = static_cast<float>(sum);
            }
            return warps;
          }};
}

TEST(CudaBlockProbes, TheWidthOfSumsIsFound) {
  for (const int bits : {13, 16, 24}) {
    const ProbeFinding finding = ask_sum_width(machine_of_width(bits));
    for (const char* form : {"MXFP8", "MXFP4"}) {
      EXPECT_EQ(figure(finding, std::string(form) + "_bits_with_d"), bits) << finding.found;
      EXPECT_EQ(figure(finding, std::string(form) + "_is_rounded"), 0) << finding.found;
    }
    EXPECT_EQ(figure(finding, "MXFP8_bits_among_products"), std::min(bits, 21)) << finding.found;
    EXPECT_EQ(figure(finding, "MXFP4_bits_among_products"), bits) << finding.found;
  }
  const ProbeFinding exact = ask_sum_width(documented_machine());
  EXPECT_EQ(
      exact.found,
      "MXFP8: 24 bits with D, rounded; at least 21 among products; MXFP4: 24 bits with D, rounded; at least "
      "29 among products");
}

TEST(CudaBlockProbes, ProductsMayBeAsRoughAsThirteenBitsAndNoRougher) {
  const auto blurred = [](double share) {
    BlockMachine machine = documented_machine();
    machine.multiply = [share, exact = machine.multiply](BlockProduct product, BlockForm form,
                                                         ScaleBytes bytes,
                                                         const std::vector<WarpRegisters>& warps) {
      std::vector<WarpRegisters> after = exact(product, form, bytes, warps);
      for (size_t i = 0; i < warps.size(); ++i) {
        const WarpProducts truth = block_truth(form, bytes.a, bytes.b, warps[i]);
        for (int lane = 0; lane < 32; ++lane)
          after[i].d[lane][0] += static_cast<float>(share * truth.magnitudes[lane][0]);
      }
      return after;
    };
    return machine;
  };
  EXPECT_EQ(ask_products(blurred(0x1p-11)).result, Result::kOk);
  EXPECT_EQ(ask_products(blurred(0x1p-9)).result, Result::kOther);
  // The twin's arithmetic is known more exactly, so its bound is tighter.
  EXPECT_EQ(ask_twin(blurred(0x1p-11)).result, Result::kOther);
  EXPECT_EQ(ask_products(blurred(NAN)).result, Result::kOther);
}

}  // namespace
}  // namespace nibble::cuda::verify
