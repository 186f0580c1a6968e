// Probes whether a kernel that started early sees, after wait_for_predecessor(), what the previous kernel
// wrote. On GB10 a load was seen to move before that wait (ggml-org/llama.cpp#23825).
#include "backend/cuda/verify/probes/order.h"

#include <fmt/format.h>

#include "backend/cuda/chip/device.h"
#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/cuda_options.h"
#include "backend/cuda/verify/probes/probes.h"

namespace nibble::cuda::verify {
namespace {

using Result = ProbeFinding::Result;

unsigned long long count_stale(int num_rounds, bool waits) {
  const OwnedStream stream;
  const LaunchContext gpu{stream, target_of(device_caps(), {})};
  const DeviceBuffer cells(kOrderCells * sizeof(uint32_t)), stale(sizeof(unsigned long long));
  check(cudaMemsetAsync(cells.as<void>(), 0, cells.bytes(), stream), "probing the order of launches");
  check(cudaMemsetAsync(stale.as<void>(), 0, stale.bytes(), stream), "probing the order of launches");
  for (int round = 1; round <= num_rounds; ++round) {
    const OrderArgs args{cells.as<uint32_t>(), static_cast<uint32_t>(round), stale.as<unsigned long long>()};
    write_late(gpu, args);
    read_behind(gpu, args, waits);
  }
  stream.wait();
  unsigned long long count = 0;
  check(cudaMemcpy(&count, stale.as<void>(), sizeof count, cudaMemcpyDeviceToHost), "copying results");
  return count;
}

}  // namespace

ProbeFinding probe_dependent_launches() {
  if (!device_caps().has_dependent_launch)
    return {Result::kMissing, "kernels of this GPU run one after the other"};
  constexpr int kRounds{10'000}, kRoundsWithoutWait{500};
  const auto stale = static_cast<double>(count_stale(kRounds, true));
  // Stale reads without the wait show that readers start early.
  const double stale_without_wait = static_cast<double>(count_stale(kRoundsWithoutWait, false)) /
                                    (double{kRoundsWithoutWait} * kOrderCells);
  return {stale == 0 ? Result::kOk : Result::kOther,
          fmt::format("{:.0f} of {} reads after the wait are stale; without it {:.0f} % are", stale,
                      1ll * kRounds * kOrderCells, 100 * stale_without_wait),
          {{"num_rounds", double{kRounds}},
           {"num_stale", stale},
           {"share_stale_without_wait", stale_without_wait}}};
}

}  // namespace nibble::cuda::verify
