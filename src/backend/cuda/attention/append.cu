// append() writes K and V of a step's rows to the KV cache before attention. For tiled attention, it also
// writes the rotated queries. A layer of the model runs it only in steps in which rows of one sequence attend
// to each other; in other steps attend_rows() writes K and V.
#include "backend/cuda/attention/args.h"
#include "backend/cuda/attention/page.cuh"
#include "backend/cuda/layout/activations.h"

namespace nibble::cuda {
namespace {

constexpr int kWarps{8}, kThreads{32 * kWarps};
static_assert(kHalf == 32);

// A warp handles one row, one key/value head, and the query heads that share this head. Lane i handles
// elements i and i + 32 of each 64-element head: rope rotates these two by one angle, which the lane computes
// once for all heads.
template <KvFormat format>
__global__ void __launch_bounds__(kThreads)
    append_kernel(const __grid_constant__ AppendArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const int index = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32,
            i = static_cast<int>(threadIdx.x) % 32, row_index = index / args.num_kv_heads,
            kv_head = index % args.num_kv_heads;
  if (row_index >= args.num_tokens) return;
  const RowInput row = args.input.rows[row_index];
  const Rotation rotation(args.rope, i, row.position);
  const int slot = args.input.slots ? args.input.slots[row_index] : row.position;
  auto* key = slot < 0 ? nullptr
                       : page_of<format>(args, row, slot / kPagePositions, kv_head) +
                             slot % kPagePositions * kHeadDim + i;
  wait_for_predecessor(timestamps);
  let_successor_start();
  const QkvRow parts = qkv_row(args, row_index);
  const auto pair_of_head = [&](int head) {
    return float2{parts(head * kHeadDim + i), parts(head * kHeadDim + i + kHalf)};
  };
  const int group_heads = args.num_heads / args.num_kv_heads, first_head = kv_head * group_heads;
  const float2 k = pair_of_head(args.num_heads + kv_head),
               v = pair_of_head(args.num_heads + args.num_kv_heads + kv_head);
  float2 q[kMaxGroupHeads];
#pragma unroll
  for (int head = 0; head < kMaxGroupHeads; ++head)
    if (args.queries.data && head < group_heads) q[head] = pair_of_head(first_head + head);
  if (key) {
    const float2 rotated = rotation(k.x, k.y);
    auto* const value = key + size_t{1} * args.num_kv_heads * kPageElements;
    key[0] = KvCodec<format>::encode(rotated.x);
    key[kHalf] = KvCodec<format>::encode(rotated.y);
    value[0] = KvCodec<format>::encode(v.x);
    value[kHalf] = KvCodec<format>::encode(v.y);
  }
#pragma unroll
  for (int head = 0; head < kMaxGroupHeads; ++head) {
    if (!args.queries.data || head >= group_heads) break;
    const float2 rotated = rotation(q[head].x, q[head].y);
    __nv_bfloat16* to = args.queries.data +
                        first_of_tile(row_index, first_head + head, args.num_heads, args.queries.image_rows) +
                        i;
    to[0] = query_of(rotated.x);
    to[kHalf] = query_of(rotated.y);
  }
}

template <typename F>
void with_kernel(KvFormat format, const F& f) {
  f(format == KvFormat::kBf16 ? append_kernel<KvFormat::kBf16> : append_kernel<KvFormat::kE4m3>);
}

}  // namespace

void prepare_append() {
  for (const KvFormat format : {KvFormat::kBf16, KvFormat::kE4m3})
    with_kernel(format, [](auto* kernel) { prefer_shared_memory(kernel); });
}

void append(const LaunchContext& gpu, const AppendArgs& args) {
  with_kernel(args.pages.format, [&](auto* kernel) {
    launch(gpu, {Operation::kAppend, "append"}, kernel,
           {static_cast<unsigned>((args.num_tokens * args.num_kv_heads + kWarps - 1) / kWarps), kThreads},
           args);
  });
}

}  // namespace nibble::cuda
