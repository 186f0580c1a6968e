#include "backend/cuda/chip/target.h"
#include "backend/cuda/dense/args.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/input/step_exchange.h"
#include "backend/cuda/pipeline/inputs.cuh"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/ptx/atomic.cuh"
#include "backend/cuda/ptx/launch.cuh"

namespace nibble::cuda {
namespace {

constexpr int kRowThreads{256}, kBringThreads{256}, kThreads{kRowThreads + kBringThreads};

__device__ void embed_row(const EmbedArgs& args, int num_chains, RowInput row) {
  const TokenSource source = row.token.source();
  if (source == TokenSource::kDraftChain)
    row = row_of_chain(args.last_drafts, num_chains, row);
  else if (source == TokenSource::kOutputRow)  // token -1 (all logits were -infinity) becomes 0
    row.token = TokenInput::of(max(args.last_results[row.token.index()].token, 0));
  if (threadIdx.x == 0) reinterpret_cast<RowInput*>(args.input)[blockIdx.x] = row;
  const int num_eights = args.hidden / 8;  // hidden is a multiple of 8 (check_shapes() in limits.h)
  const auto* const from =
      reinterpret_cast<const uint4*>(args.embedding) + size_t{1} * row.token.id() * num_eights;
  auto* const to = reinterpret_cast<float4*>(args.x) + size_t{2} * blockIdx.x * num_eights;
  for (int i = static_cast<int>(threadIdx.x); i < num_eights; i += kRowThreads) {
    const uint4 eight = from[i];
    to[2 * i] = four_floats({eight.x, eight.y});
    to[2 * i + 1] = four_floats({eight.z, eight.w});
  }
}

// Copies this CTA's share of the part of the step's input that follows the rows. kBringThreads threads call
// it.
__device__ void bring_rest(const uint4* from, uint4* to, unsigned num_quads) {
  constexpr unsigned kAhead{4};
  const unsigned stride = gridDim.x * kBringThreads;
  for (unsigned i = gridDim.x + blockIdx.x * kBringThreads + threadIdx.x - kRowThreads; i < num_quads;
       i += kAhead * stride) {
    uint4 quads[kAhead];
#pragma unroll
    for (unsigned ahead = 0; ahead < kAhead; ++ahead)
      quads[ahead] =
          i + ahead * stride < num_quads ? __ldcg(from + i + ahead * stride) : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (unsigned ahead = 0; ahead < kAhead; ++ahead)
      if (i + ahead * stride < num_quads) to[i + ahead * stride] = quads[ahead];
  }
}

// Each CTA handles one row. A load from the host's memory takes 1 to 2 us, so all such loads are issued
// early: first those of the row and the header; the others while kRowThreads threads read the embedding.
__global__ void __launch_bounds__(kThreads)
    embed_kernel(const __grid_constant__ EmbedArgs args, Timestamps timestamps) {
  static_assert(sizeof(RowInput) == sizeof(uint4) && sizeof(InputHeader) == sizeof(uint4));
  __shared__ RowInput row;
  __shared__ unsigned num_bytes, num_chains;
  const EndTimestamp end_timestamp(timestamps);
  wait_for_predecessor(timestamps);
  const unsigned long long begin_ns = now_ns();
  let_successor_start();
  const uint32_t step = __ldcg(args.step) + 1;
  const InputHeader* const header = args.exchange.inputs[step % 2];
  const auto* const from = reinterpret_cast<const uint4*>(header + 1);
  if (threadIdx.x == 0) {
    if (blockIdx.x == 0) *args.exchange.outputs[step % 2] = {begin_ns, 0, step};
    const uint4 words = __ldcg(from + blockIdx.x);
    const uint2 numbers = __ldcg(reinterpret_cast<const uint2*>(header));
    num_bytes = numbers.x;
    num_chains = numbers.y;
    row = {TokenInput{words.x}, static_cast<int>(words.y), words.z, words.w};
  }
  __syncthreads();
  // The last CTA to read the step's number stores the new number, in the thread that has the least to copy.
  if (threadIdx.x == kThreads - 1 && increment_up_to(args.ticket, gridDim.x - 1) == gridDim.x - 1)
    *args.step = step;
  if (threadIdx.x < kRowThreads)
    embed_row(args, static_cast<int>(num_chains), row);
  else
    bring_rest(from, reinterpret_cast<uint4*>(args.input), (num_bytes + 15) / 16);
}

}  // namespace

void prepare_embed() { prefer_shared_memory(embed_kernel); }

void embed(const LaunchContext& gpu, int num_tokens, const EmbedArgs& args) {
  launch(gpu, {Operation::kEmbed, "embed"}, embed_kernel, {dim3(static_cast<unsigned>(num_tokens)), kThreads},
         args);
}

}  // namespace nibble::cuda
