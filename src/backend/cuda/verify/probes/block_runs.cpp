#include "backend/cuda/verify/probes/block_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cuda/chip/owned_bytes.h"
#include "core/numbers/random.h"

namespace nibble::cuda::verify {
namespace {

bool is_same(double actual, double expected) {
  return actual == expected || (std::isnan(actual) && std::isnan(expected));
}

bool asks_block_mma() {
  const OwnedStream stream;
  const DeviceBuffer is_native(sizeof(int));
  ask_block_mma(stream, is_native.as<int>());
  stream.wait();
  int answer = 0;
  check(cudaMemcpy(&answer, is_native.as<int>(), sizeof answer, cudaMemcpyDeviceToHost), "copying results");
  return answer != 0;
}

std::vector<WarpRegisters> multiply_here(BlockProduct product, BlockForm form, ScaleBytes bytes,
                                         const std::vector<WarpRegisters>& warps) {
  const OwnedStream stream;
  std::vector<WarpRegisters> result(warps.size());
  const size_t size = warps.size() * sizeof(WarpRegisters);
  const DeviceBuffer buffer(size);
  copy_to_device(buffer.as<void>(), warps.data(), size, "copying operands");
  multiply_blocks(
      stream, {product, form, bytes.a, bytes.b, buffer.as<WarpRegisters>(), static_cast<int>(warps.size())});
  stream.wait();
  check(cudaMemcpy(result.data(), buffer.as<void>(), size, cudaMemcpyDeviceToHost), "copying results");
  return result;
}

}  // namespace

BlockMachine this_gpu() { return {asks_block_mma(), &multiply_here}; }

const char* name(BlockForm form) { return form == BlockForm::kMxfp8 ? "MXFP8" : "MXFP4"; }

std::vector<ScaleBytes> scale_bytes_of(BlockForm form) {
  std::vector<ScaleBytes> pairs;
  const int step = form == BlockForm::kMxfp8 ? 1 : 2;
  for (int a = 0; a < 4; a += step)
    for (int b = 0; b < 4; b += step) pairs.push_back({a, b});
  return pairs;
}

WarpRegisters zeros_with_scales_of_one() {
  WarpRegisters warp{};
  std::fill_n(warp.a_scale, 32, kScaleOfOne * 0x01010101u);
  std::fill_n(warp.b_scale, 32, kScaleOfOne * 0x01010101u);
  return warp;
}

WarpRegisters random_registers(BlockForm form, uint64_t seed, int spread) {
  uint64_t next = 0;
  const auto random = [&] { return static_cast<uint32_t>(random_bits(seed, next++)); };
  const auto below = [&](int count) { return random() % static_cast<uint32_t>(count); };
  const auto four = [&](const auto& byte) {
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) word |= byte() << 8 * i;
    return word;
  };
  WarpRegisters warp{};
  for (int lane = 0; lane < 32; ++lane) {
    for (uint32_t& word : warp.a[lane]) word = form == BlockForm::kMxfp8 ? random() & 0x3C3C3C3Cu : random();
    for (uint32_t& word : warp.b[lane])
      word = form == BlockForm::kMxfp8 ? four([&] { return below(127) | below(2) << 7; }) : random();
    const auto scale = [&] { return static_cast<uint32_t>(kScaleOfOne - spread) + below(2 * spread + 1); };
    warp.a_scale[lane] = four(scale);
    warp.b_scale[lane] = four(scale);
    for (float& sum : warp.d[lane]) sum = static_cast<float>(static_cast<int>(below(257)) - 128);
  }
  return warp;
}

std::string first_difference(const BlockMachine& machine, BlockForm form, ScaleBytes bytes,
                             const std::vector<WarpRegisters>& warps) {
  const std::vector<WarpRegisters> after = machine.multiply(BlockProduct::kNative, form, bytes, warps);
  for (size_t i = 0; i < warps.size(); ++i) {
    const WarpProducts truth = block_truth(form, bytes.a, bytes.b, warps[i]);
    for (int lane = 0; lane < 32; ++lane)
      for (int reg = 0; reg < 4; ++reg)
        if (const double actual = after[i].d[lane][reg], expected = truth.d[lane][reg];
            !is_same(actual, expected))
          return fmt::format("lane {}, d{} of product {} ({}, bytes {} and {}): {}, expected {}", lane, reg,
                             i, name(form), bytes.a, bytes.b, actual, expected);
  }
  return {};
}

double worst_share(const BlockMachine& machine, BlockProduct product, BlockForm form, ScaleBytes bytes,
                   const std::vector<WarpRegisters>& warps) {
  const std::vector<WarpRegisters> after = machine.multiply(product, form, bytes, warps);
  double worst = 0;
  for (size_t i = 0; i < warps.size(); ++i) {
    const WarpProducts truth = block_truth(form, bytes.a, bytes.b, warps[i]);
    for (int lane = 0; lane < 32; ++lane)
      for (int reg = 0; reg < 4; ++reg) {
        const double error = std::abs(double{after[i].d[lane][reg]} - truth.d[lane][reg]);
        if (error == 0) continue;
        if (!(error <= truth.magnitudes[lane][reg]))
          return std::numeric_limits<double>::infinity();  // also returns infinity if error is NaN
        worst = std::max(worst, error / truth.magnitudes[lane][reg]);
      }
  }
  return worst;
}

}  // namespace nibble::cuda::verify
