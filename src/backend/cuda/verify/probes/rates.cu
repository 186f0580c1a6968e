#include "backend/cuda/ptx/block_mma.cuh"
#include "backend/cuda/verify/probes/rates.h"

namespace nibble::cuda::verify {
namespace {

constexpr int kChains{8};  // sums of a warp that do not wait for each other

// Has FP8 products of its own: for sm_90 the compiler makes them of HMMA, in a routine that is called.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890 && __CUDA_ARCH__ != 900
#define NIBBLE_FP8_MMA 1
#else
#define NIBBLE_FP8_MMA 0
#endif

template <RatedProduct product>
constexpr bool is_built() {
  return product == RatedProduct::kBf16 ||
         (product == RatedProduct::kE4m3 ? NIBBLE_FP8_MMA : NIBBLE_BLOCK_MMA);
}

__device__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ void mma_e4m3([[maybe_unused]] float (&d)[4], [[maybe_unused]] const uint32_t (&a)[4],
                         [[maybe_unused]] const uint32_t (&b)[2]) {
#if NIBBLE_FP8_MMA
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

template <RatedProduct product>
__global__ void __launch_bounds__(32 * kRateWarps) rate_kernel(const RateArgs args) {
  long long clocks = 0;
  if constexpr (is_built<product>()) {
    // Operands of small magnitude whatever their format, and not known to the compiler.
    const uint32_t one = gridDim.y;
    const uint32_t a[]{one, one << 8, one << 16, one << 24}, b[]{one << 4, one << 20};
    // Chains begin differently: the compiler would make one of equal ones.
    float sums[kChains][4]{};
    for (int chain = 0; chain < kChains; ++chain) sums[chain][0] = static_cast<float>(chain);
    __syncthreads();
    const long long start = clock64();
    for (int i = 0; i < kRateProducts / kChains; ++i)
#pragma unroll
      for (auto& sum : sums) {
        if constexpr (product == RatedProduct::kBf16)
          mma_bf16(sum, a, b);
        else if constexpr (product == RatedProduct::kE4m3)
          mma_e4m3(sum, a, b);
        else
          block_mma<product == RatedProduct::kMxfp8 ? BlockForm::kMxfp8 : BlockForm::kMxfp4, 0, 0>(sum, a, b,
                                                                                                   one, one);
      }
    float total = 0;
    for (const auto& sum : sums) total += sum[0] + sum[1] + sum[2] + sum[3];
    if (total == -1.0f) *args.sums = total;  // never true; keeps the compiler from dropping the products
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
