// embed and argmax: what a step begins and ends with.
#include "backend/cuda/kernels.h"
#include "backend/cuda/pdl.cuh"

namespace nibble::cuda {
namespace {

constexpr int kThreads{256};

__global__ void __launch_bounds__(kThreads) embed_kernel(const __grid_constant__ EmbedArgs args) {
  wait_for_predecessor();
  let_successor_start();
  const int row = static_cast<int>(blockIdx.x);
  if (row == 0 && threadIdx.x == 0) ++*args.step;
  const __nv_bfloat16* from = args.embedding + size_t{1} * args.input.rows[row].token * args.hidden;
  for (int i = static_cast<int>(threadIdx.x); i < args.hidden; i += kThreads)
    args.x[size_t{1} * row * args.hidden + i] = __bfloat162float(from[i]);
}

struct Best {
  float logit;
  int token;
};
__device__ Best better(Best a, Best b) {
  if (b.token < 0) return a;
  if (a.token < 0) return b;
  return b.logit > a.logit || (b.logit == a.logit && b.token < a.token) ? b : a;
}
__device__ Best best_of_block(Best best) {
  __shared__ Best warps[kThreads / 32];
  for (int distance = 16; distance > 0; distance /= 2)
    best = better(best,
                  {__shfl_xor_sync(~0u, best.logit, distance), __shfl_xor_sync(~0u, best.token, distance)});
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = best;
  __syncthreads();
  for (int warp = 0; warp < kThreads / 32; ++warp) best = better(best, warps[warp]);
  return best;
}

__global__ void __launch_bounds__(kThreads) argmax_kernel(const __grid_constant__ ArgmaxArgs args) {
  __shared__ bool is_last;
  wait_for_predecessor();
  let_successor_start();
  const int row = static_cast<int>(blockIdx.y), block = static_cast<int>(blockIdx.x);
  const float* logits = args.logits + size_t{1} * row * args.vocab;
  Best best{0, -1};
  for (int token = block * kThreads + static_cast<int>(threadIdx.x); token < args.vocab;
       token += kArgmaxBlocks * kThreads) {
    const float logit = logits[token];
    if (logit > -INFINITY) best = better(best, {logit, token});  // false for NaN
  }
  best = best_of_block(best);
  float* bests = args.best + row * kArgmaxBlocks;
  int* tokens = args.best_token + row * kArgmaxBlocks;
  if (threadIdx.x == 0) {
    bests[block] = best.logit;
    tokens[block] = best.token;
    __threadfence();
    is_last = atomicAdd(args.tickets + row, 1) == kArgmaxBlocks - 1;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  Best all{0, -1};
  if (threadIdx.x < kArgmaxBlocks) all = {__ldcg(bests + threadIdx.x), __ldcg(tokens + threadIdx.x)};
  all = best_of_block(all);
  if (threadIdx.x == 0) {
    args.tokens[row] = all.token;
    args.tickets[row] = 0;
  }
}

__global__ void __launch_bounds__(1024) read_kernel(const __grid_constant__ ReadArgs args) {
  constexpr int kAhead{4};
  const size_t stride = size_t{1} * gridDim.x * blockDim.x;
  uint32_t sum = 0;
  for (size_t i = size_t{1} * blockIdx.x * blockDim.x + threadIdx.x; i < args.count; i += kAhead * stride) {
    uint4 values[kAhead];
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead)
      values[ahead] =
          i + ahead * stride < args.count ? __ldcs(args.from + i + ahead * stride) : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead)
      sum += values[ahead].x ^ values[ahead].y ^ values[ahead].z ^ values[ahead].w;
  }
  if (sum == 0x12345678u) *args.sum = sum;  // never: the loads must not be left out
}

}  // namespace

void read_all(Stream stream, const ReadArgs& args) {
  read_kernel<<<static_cast<unsigned>(device_info().num_multiprocessors * 2), 1024, 0, stream>>>(args);
  check(cudaGetLastError(), "reading its memory");
}

void prepare_embed() {
  prefer_shared_memory(embed_kernel);
  prefer_shared_memory(argmax_kernel);
}

void embed(Stream stream, int num_tokens, const EmbedArgs& args) {
  launch(stream, embed_kernel, {dim3(static_cast<unsigned>(num_tokens)), kThreads}, args);
}

void argmax(Stream stream, int num_rows, const ArgmaxArgs& args) {
  launch(stream, argmax_kernel, {dim3(kArgmaxBlocks, static_cast<unsigned>(num_rows)), kThreads}, args);
}

}  // namespace nibble::cuda
