// Writes the rows of a step to the cache before any of them is attended to: for steps in which rows of one sequence see each other.
// Elsewhere attend_rows() does it.
#include "backend/cuda/attention/page.cuh"
#include "backend/cuda/layout/image.h"

namespace nibble::cuda {
namespace {

constexpr int kThreads{256};
static_assert(kMaxGroupHeads * kHalf == kThreads);

// A CTA takes one row and one key/value head.
template <KvFormat format>
__global__ void __launch_bounds__(kThreads)
    append_kernel(const __grid_constant__ AppendArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const int row_index = static_cast<int>(blockIdx.x), kv_head = static_cast<int>(blockIdx.y);
  const RowInput row = args.input.rows[row_index];
  const Rotation rotation(args.rope, static_cast<int>(threadIdx.x) % kHalf, row.position);
  const int slot = args.input.slots ? args.input.slots[row_index] : row.position;
  auto* keys = slot < 0 ? nullptr
                        : page_of<format>(args.pages, args.input, row, slot / kPagePositions,
                                          args.num_kv_heads, kv_head) +
                              slot % kPagePositions * kHeadDim;
  wait_for_predecessor(timestamps);
  let_successor_start();
  const QkvRow parts =
      qkv_row(args.parts, args.has_rest, row_index, args.num_tokens, args.num_heads, args.num_kv_heads);
  const CurrentKeyValue<format> current(parts, args.num_heads, args.num_kv_heads, kv_head);
  if (keys) current.store(rotation, keys, keys + size_t{1} * args.num_kv_heads * kPageElements);
  if (!args.queries) return;
  const int group_heads = args.num_heads / args.num_kv_heads, head = static_cast<int>(threadIdx.x) / kHalf,
            element = static_cast<int>(threadIdx.x) % kHalf;
  if (head >= group_heads) return;
  const int of_all = kv_head * group_heads + head, q = of_all * kHeadDim + element;
  const float2 rotated = rotation(parts(q), parts(q + kHalf));
  __nv_bfloat16* to =
      args.queries + first_of_tile(row_index, of_all, args.num_heads, args.image_rows) + element;
  to[0] = query_of(rotated.x);
  to[kHalf] = query_of(rotated.y);
}

}  // namespace

void prepare_append() {
  prefer_shared_memory(append_kernel<KvFormat::kBf16>);
  prefer_shared_memory(append_kernel<KvFormat::kE4m3>);
}

void append(const LaunchContext& gpu, const AppendArgs& args) {
  launch(
      gpu, {Operation::kAppend, "append"},
      args.pages.format == KvFormat::kBf16 ? append_kernel<KvFormat::kBf16> : append_kernel<KvFormat::kE4m3>,
      {dim3(static_cast<unsigned>(args.num_tokens), static_cast<unsigned>(args.num_kv_heads)), kThreads},
      args);
}

}  // namespace nibble::cuda
