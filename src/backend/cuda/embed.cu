// embed: the first kernel of a step. Also a kernel that reads a lot of memory, for measuring bandwidth.
#include "backend/cuda/chip/run_kernel.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/pdl.cuh"
#include "backend/cuda/step_times.cuh"

namespace nibble::cuda {
namespace {

constexpr int kThreads{256};

__global__ void __launch_bounds__(kThreads)
    embed_kernel(const __grid_constant__ EmbedArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  wait_for_predecessor(timestamps);
  let_successor_start();
  const int row = static_cast<int>(blockIdx.x);
  if (row == 0 && threadIdx.x == 0) {
    ++*args.step;
    begin_step(args.times);
  }
  int token = args.input.rows[row].token;
  if (token < 0) {
    token = max(args.last_results[-1 - token].token, 0);  // -1: there was no number among its logits
    __syncthreads();                                      // all threads have read where it is
    if (threadIdx.x == 0) args.input.rows[row].token = token;
  }
  const __nv_bfloat16* from = args.embedding + size_t{1} * token * args.hidden;
  for (int i = static_cast<int>(threadIdx.x); i < args.hidden; i += kThreads)
    args.x[size_t{1} * row * args.hidden + i] = __bfloat162float(from[i]);
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
  if (sum == 0x12345678u) *args.sum = sum;  // never true; keeps the compiler from dropping the loads
}

}  // namespace

void read_all(Stream stream, int num_multiprocessors, const ReadArgs& args) {
  run_kernel(stream, "reading its memory", read_kernel, static_cast<unsigned>(num_multiprocessors * 2), 1024,
             args);
}

void prepare_embed() { prefer_shared_memory(embed_kernel); }

void embed(const LaunchContext& gpu, int num_tokens, const EmbedArgs& args) {
  launch(gpu, {Operation::kEmbed, "embed"}, embed_kernel, {dim3(static_cast<unsigned>(num_tokens)), kThreads},
         args);
}

}  // namespace nibble::cuda
