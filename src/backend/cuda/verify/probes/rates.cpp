#include "backend/cuda/verify/probes/rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/chip/stream_timer.h"
#include "backend/cuda/verify/probes/probes.h"

namespace nibble::cuda::verify {
namespace {

const char* name(RatedProduct product) {
  constexpr const char* kNames[]{"BF16", "FP8", "MXFP8 x MXFP4", "MXFP4 x MXFP4"};
  return kNames[static_cast<int>(product)];
}

struct Rate {
  double operations_per_clock;  // per SM; a multiply-add counts as 2; 0: the GPU lacks the instruction
  double teraflops;             // rate of the whole GPU, averaged over the whole launch
};
// Returns the best rate of several launches: clocks may still be low in the first ones.
Rate rate_of(RatedProduct product) {
  constexpr int kPasses{5};
  const OwnedStream stream;
  std::vector<long long> clocks(device_caps().num_multiprocessors);
  const size_t size = clocks.size() * sizeof(long long);
  const DeviceBuffer device_clocks(size), sums(sizeof(float));
  const double all = double{kRateWarps} * kRateProducts * operations(product);
  const StreamTimer timer(stream);
  Rate best{};
  for (int pass = 0; pass < kPasses; ++pass) {
    const float milliseconds = timer.milliseconds("measuring its rates", [&] {
      measure_rate(stream, {product, device_clocks.as<long long>(), sums.as<float>()});
    });
    check(cudaMemcpy(clocks.data(), device_clocks.as<void>(), size, cudaMemcpyDeviceToHost),
          "copying results");
    const long long slowest = std::ranges::max(clocks);
    if (slowest == 0) break;
    best.operations_per_clock = std::max(best.operations_per_clock, all / static_cast<double>(slowest));
    best.teraflops = std::max(best.teraflops, all * static_cast<double>(clocks.size()) / milliseconds / 1e9);
  }
  return best;
}

}  // namespace

ProbeFinding probe_rates() {
  ProbeFinding finding{ProbeFinding::Result::kOk, "FLOP per clock and multiprocessor:"};
  for (const RatedProduct product : kRatedProducts) {
    const Rate rate = rate_of(product);
    if (rate.operations_per_clock == 0) continue;
    finding.found += fmt::format("{} {} {:.0f} ({:.0f} TFLOP/s)", finding.figures.empty() ? "" : ",",
                                 name(product), rate.operations_per_clock, rate.teraflops);
    finding.figures.push_back({fmt::format("{} flop_per_clock", name(product)), rate.operations_per_clock});
    finding.figures.push_back({fmt::format("{} tflops", name(product)), rate.teraflops});
  }
  return finding;
}

}  // namespace nibble::cuda::verify
