// Operands for probes of block-scaled products, and comparisons of their results with expected ones.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/cuda/verify/block_truth.h"
#include "backend/cuda/verify/probes/block_products.h"
#include "backend/machine_probe.h"

namespace nibble::cuda::verify {

inline constexpr BlockForm kBlockForms[]{BlockForm::kMxfp8, BlockForm::kMxfp4};
const char* name(BlockForm form);

// The number 1 as a code of A, as a code of B, and as a scale byte.
constexpr uint32_t one_of_a(BlockForm form) { return form == BlockForm::kMxfp8 ? 0x08 : 0x2; }
constexpr uint32_t one_of_b(BlockForm form) { return form == BlockForm::kMxfp8 ? 0x38 : 0x2; }
inline constexpr uint8_t kScaleOfOne{127};

struct ScaleBytes {
  int a, b;
};
std::vector<ScaleBytes> scale_bytes_of(BlockForm form);  // returns all pairs that an instruction can select

WarpRegisters zeros_with_scales_of_one();
// Returns random codes except NaN, scales from 2^-spread to 2^spread in all bytes, and d of up to 128.
WarpRegisters random_registers(BlockForm form, uint64_t seed, int spread);

struct BlockMachine {  // this GPU or, in tests, a simulated one
  bool has_block_mma;  // whether kNative is the mma instruction; if false, kNative is its software twin
  std::function<std::vector<WarpRegisters>(BlockProduct, BlockForm, ScaleBytes,
                                           const std::vector<WarpRegisters>&)>
      multiply;

  ProbeFinding::Result expected_answer() const {  // returns the result of a kNative probe that finds no fault
    return has_block_mma ? ProbeFinding::Result::kOk : ProbeFinding::Result::kTwin;
  }
};
BlockMachine this_gpu();

// Runs the kNative product of each warp, and requires that every element of d equals the expected value, also
// if that is NaN. The operands must give sums that are exact in float32. Returns "" or the first difference:
// "lane 3, d1 of product 17 (MXFP8, bytes 0 and 2): 4, expected 1"
std::string first_difference(const BlockMachine& machine, BlockForm form, ScaleBytes bytes,
                             const std::vector<WarpRegisters>& warps);

// Returns the largest error of an element of d, relative to the sum of magnitudes of all its terms.
double worst_share(const BlockMachine& machine, BlockProduct product, BlockForm form, ScaleBytes bytes,
                   const std::vector<WarpRegisters>& warps);

}  // namespace nibble::cuda::verify
