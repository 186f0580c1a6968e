#include "backend/cuda/chip/check.h"
#include "backend/cuda/ptx/block_mma.cuh"
#include "backend/cuda/ptx/mma.cuh"
#include "backend/cuda/verify/probes/rates.h"

namespace nibble::cuda::verify {
namespace {

constexpr int kChains{8};  // independent sums per warp

template <RatedProduct product>
constexpr bool is_built() {
  return product == RatedProduct::kBf16 ||
         (product == RatedProduct::kE4m3 ? NIBBLE_FP8_MMA : NIBBLE_BLOCK_MMA);
}

template <RatedProduct product>
__global__ void __launch_bounds__(32 * kRateWarps) rate_kernel(const RateArgs args) {
  long long clocks = 0;
  if constexpr (is_built<product>()) {
    // The operands depend on gridDim.y, which is 1, so the compiler cannot compute the products in advance.
    // The operands are small numbers in every format.
    const uint32_t one = gridDim.y;
    const uint32_t a[]{one, one << 8, one << 16, one << 24}, b[]{one << 4, one << 20};
    // Chains start with different values, because the compiler would merge equal chains.
    float sums[kChains][4]{};
    for (int chain = 0; chain < kChains; ++chain) sums[chain][0] = static_cast<float>(chain);
    __syncthreads();
    const long long start = clock64();
    for (int i = 0; i < kRateProducts / kChains; ++i)
#pragma unroll
      for (auto& sum : sums) {
        if constexpr (product == RatedProduct::kBf16)
          mma_bf16(sum, a, b[0], b[1]);
        else if constexpr (product == RatedProduct::kE4m3)
          mma_e4m3(sum, a, b[0], b[1]);
        else
          block_mma<product == RatedProduct::kMxfp8 ? BlockForm::kMxfp8 : BlockForm::kMxfp4, 0, 0>(sum, a, b,
                                                                                                   one, one);
      }
    float total = 0;
    for (const auto& sum : sums) total += sum[0] + sum[1] + sum[2] + sum[3];
    if (total == -1.0f) *args.sums = total;  // never true, but the compiler must keep the products
    __syncthreads();
    clocks = clock64() - start;
  }
  if (threadIdx.x == 0) args.clocks[blockIdx.x] = clocks;
}

}  // namespace

void measure_rate(Stream stream, const RateArgs& args) {
  const dim3 grid(static_cast<unsigned>(device_caps().num_multiprocessors));
  constexpr int kRateThreads{32 * kRateWarps};
  switch (args.product) {
    case RatedProduct::kBf16:
      rate_kernel<RatedProduct::kBf16><<<grid, kRateThreads, 0, stream>>>(args);
      break;
    case RatedProduct::kE4m3:
      rate_kernel<RatedProduct::kE4m3><<<grid, kRateThreads, 0, stream>>>(args);
      break;
    case RatedProduct::kMxfp8:
      rate_kernel<RatedProduct::kMxfp8><<<grid, kRateThreads, 0, stream>>>(args);
      break;
    case RatedProduct::kMxfp4:
      rate_kernel<RatedProduct::kMxfp4><<<grid, kRateThreads, 0, stream>>>(args);
      break;
  }
  check(cudaGetLastError(), "measuring its rates");
}

}  // namespace nibble::cuda::verify
