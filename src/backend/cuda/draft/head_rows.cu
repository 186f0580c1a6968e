// The kernels of a draft head that handle rows one by one. A row's results do not depend on other rows.
#include "backend/cuda/draft/head_rows.h"
#include "backend/cuda/pipeline/inputs.cuh"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/warp_reduce.cuh"
#include "backend/cuda/ptx/exp2.cuh"

namespace nibble::cuda {
namespace {

constexpr int kThreads{256}, kWarps{kThreads / 32};
// Number of float4s of a row that a thread holds, for up to kMaxHidden elements.
constexpr int kFours{kMaxHidden / 4 / kThreads};

__device__ float4 scaled(float4 x, float factor, float4 weights) {
  return make_float4(x.x * factor * weights.x, x.y * factor * weights.y, x.z * factor * weights.z,
                     x.w * factor * weights.w);
}

// Returns the factor of the RMS norm of a row of `size` elements. Each thread passes its `fours` float4s of
// the row, with zeros past the end. All threads must call it. Consecutive calls need different `sums`,
// because slower threads may still read the sums of the previous call.
template <int fours>
__device__ float norm_factor(const float4 (&x)[fours], int size, float eps, float (&sums)[kWarps]) {
  float squares = 0;
#pragma unroll
  for (int n = 0; n < fours; ++n)
    squares += x[n].x * x[n].x + x[n].y * x[n].y + x[n].z * x[n].z + x[n].w * x[n].w;
  squares = reduce_warp(squares, cooperative_groups::plus<float>());
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = squares;
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) sum += sums[warp];
  return rsqrtf(sum / static_cast<float>(size) + eps);
}

// Returns the index, within a row, of the n-th float4 that this thread holds.
__device__ int four_of(int n) { return n * kThreads + static_cast<int>(threadIdx.x); }

__global__ void __launch_bounds__(kThreads)
    keep_tap_kernel(const __grid_constant__ KeepTapArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  wait_for_predecessor(timestamps);
  let_successor_start();
  const Residual x(args.x);
  const int row = static_cast<int>(blockIdx.x), num_fours = x.hidden / 4;
  auto* to = reinterpret_cast<uint2*>(args.taps) + (size_t{1} * row * kNumTaps + args.tap) * num_fours;
  for (int i = static_cast<int>(threadIdx.x); i < num_fours; i += kThreads)
    to[i] = four_bf16(x.sum(x.request<float4>(row, i)));
}

__global__ void __launch_bounds__(kThreads)
    norm_taps_kernel(const __grid_constant__ NormTapsArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  __shared__ float sums[kWarps];
  wait_for_predecessor(timestamps);
  let_successor_start();
  const int num_fours = kNumTaps * args.hidden / 4;
  auto* row = reinterpret_cast<uint2*>(args.taps) + size_t{1} * blockIdx.x * num_fours;
  float4 x[kNumTaps * kFours];
#pragma unroll
  for (int n = 0; n < kNumTaps * kFours; ++n)
    x[n] = four_of(n) < num_fours ? four_floats(row[four_of(n)]) : make_float4(0, 0, 0, 0);
  const float factor = norm_factor(x, 4 * num_fours, args.eps, sums);
#pragma unroll
  for (int n = 0; n < kNumTaps * kFours; ++n)
    if (const int i = four_of(n); i < num_fours)
      row[i] = four_bf16(scaled(x[n], factor, reinterpret_cast<const float4*>(args.weights)[i]));
}

// Each CTA handles one run (adjacent rows of one sequence) of the step.
__global__ void __launch_bounds__(kThreads)
    place_drafts_kernel(const __grid_constant__ PlaceDraftsArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  __shared__ DraftStart start;
  wait_for_predecessor(timestamps);
  let_successor_start();
  const DraftRun run = args.runs[blockIdx.x];
  if (run.num_rows == 0) return;
  const int end_of_chain = run.num_rows - (run.is_tree ? run.num_drafted : 0);
  const auto put = [&](int row, int token, int chain) {
    args.slots[run.first_row + row] = {max(token, 0), chain};
  };
  for (int row = static_cast<int>(threadIdx.x); row < run.num_rows; row += kThreads) {
    put(row, known_token(run, args.choices, row), -1);
    if (args.kv_slots)
      args.kv_slots[run.first_row + row] =
          row < end_of_chain ? args.choices.rows[run.first_row + row].position : -1;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    start = draft_start(run, args.choices, [&](int row, int next) {
      if (!run.is_tree) return;
      const RowInput right = args.choices.rows[run.first_row + next];
      put(row, right.token.id(), -1);
      args.kv_slots[run.first_row + next] = right.position;
    });
    put(start.row, start.token, run.chain.bits);
  }
  __syncthreads();
  if (!run.chain.has_value()) return;
  const RowInput row = args.choices.rows[run.first_row + start.row];
  if (threadIdx.x == 0) args.starts[run.chain.value()] = {row.position, start.is_chosen ? start.token : -1};
  if (const int n = static_cast<int>(threadIdx.x); n < args.num_drafts)
    args.chain_rows[n * args.num_chains + run.chain.value()] = {
        TokenInput::of(0), min(row.position + n, args.max_position), row.full_pages, row.sliding_pages};
}

__global__ void __launch_bounds__(kThreads)
    draft_input_kernel(const __grid_constant__ DraftInputArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  __shared__ float sums[3][kWarps];
  wait_for_predecessor(timestamps);
  let_successor_start();
  const Residual features(args.features);
  const int row = static_cast<int>(blockIdx.x), hidden = features.hidden, num_fours = hidden / 4;
  const DraftSlot slot =
      args.slots ? args.slots[row] : DraftSlot{args.tokens[max(args.chosen[row].token, 0)], row};
  const auto* embedded = reinterpret_cast<const uint2*>(args.embedding) + size_t{1} * slot.token * num_fours;
  const float4 zero = make_float4(0, 0, 0, 0);
  float4 e[kFours], f[kFours];
#pragma unroll
  for (int n = 0; n < kFours; ++n) {
    const int i = four_of(n);
    e[n] = i < num_fours ? four_floats(embedded[i]) : zero;
    f[n] = i < num_fours ? features.sum(features.request<float4>(row, i)) : zero;
  }
  const auto weights_at = [&](const float* weights, int n) {
    return four_of(n) < num_fours ? reinterpret_cast<const float4*>(weights)[four_of(n)] : zero;
  };
  if (args.features_norm) {
    const float factor = norm_factor(f, hidden, args.eps, sums[0]);
#pragma unroll
    for (int n = 0; n < kFours; ++n) f[n] = scaled(f[n], factor, weights_at(args.features_norm, n));
  }
  const float of_token = norm_factor(e, hidden, args.eps, sums[1]),
              of_features = norm_factor(f, hidden, args.eps, sums[2]);
#pragma unroll
  for (int n = 0; n < kFours; ++n) {
    const int i = four_of(n);
    if (i >= num_fours) continue;
    const float4 h = scaled(f[n], of_features, weights_at(args.hidden_norm, n));
    const uint2 token_half = four_bf16(scaled(e[n], of_token, weights_at(args.token_norm, n)));
    const auto put = [&](__nv_bfloat16* z, int to) {
      auto* fours = reinterpret_cast<uint2*>(z) + size_t{2} * to * num_fours;
      fours[i] = token_half;
      fours[num_fours + i] = four_bf16(h);
    };
    if (args.z) put(args.z, row);
    if (slot.chain < 0) continue;
    put(args.chain_z, slot.chain);
    reinterpret_cast<float4*>(args.residual)[size_t{1} * slot.chain * num_fours + i] =
        args.norm_before_residual ? h : f[n];
  }
}

__global__ void __launch_bounds__(kThreads)
    draft_gate_kernel(const __grid_constant__ DraftGateArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  wait_for_predecessor(timestamps);
  let_successor_start();
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x), row = static_cast<int>(blockIdx.y);
  if (i >= args.intermediate) return;
  const size_t width = size_t{2} * args.intermediate, rest = args.has_rest ? gridDim.y * width : 0;
  const auto at = [&](size_t place) {
    return rest ? args.parts[place] + args.parts[place + rest] : args.parts[place];
  };
  constexpr float kLog2E{1.4426950408889634f};
  const float gate = at(row * width + i), up = at(row * width + args.intermediate + i);
  args.gated[size_t{1} * row * args.intermediate + i] =
      __float2bfloat16_rn(__fdividef(gate, 1 + exp2_of(-kLog2E * gate)) * up);
}

}  // namespace

void prepare_head_rows() {
  prefer_shared_memory(keep_tap_kernel);
  prefer_shared_memory(norm_taps_kernel);
  prefer_shared_memory(place_drafts_kernel);
  prefer_shared_memory(draft_input_kernel);
  prefer_shared_memory(draft_gate_kernel);
}

void keep_tap(const LaunchContext& gpu, int num_rows, const KeepTapArgs& args) {
  launch(gpu, {Operation::kRmsNorm, "keep_tap"}, keep_tap_kernel,
         {dim3(static_cast<unsigned>(num_rows)), kThreads}, args);
}
void norm_taps(const LaunchContext& gpu, int num_rows, const NormTapsArgs& args) {
  launch(gpu, {Operation::kRmsNorm, "norm_taps"}, norm_taps_kernel,
         {dim3(static_cast<unsigned>(num_rows)), kThreads}, args);
}
void place_drafts(const LaunchContext& gpu, int num_runs, const PlaceDraftsArgs& args) {
  launch(gpu, {Operation::kSample, "place_drafts"}, place_drafts_kernel,
         {dim3(static_cast<unsigned>(num_runs)), kThreads}, args);
}
void draft_input(const LaunchContext& gpu, int num_rows, const DraftInputArgs& args) {
  launch(gpu, {Operation::kEmbed, "draft_input"}, draft_input_kernel,
         {dim3(static_cast<unsigned>(num_rows)), kThreads}, args);
}
void draft_gate(const LaunchContext& gpu, int num_rows, const DraftGateArgs& args) {
  launch(gpu, {Operation::kExpertsUp, "draft_gate"}, draft_gate_kernel,
         {dim3(static_cast<unsigned>((args.intermediate + kThreads - 1) / kThreads),
               static_cast<unsigned>(num_rows)),
          kThreads},
         args);
}

}  // namespace nibble::cuda
