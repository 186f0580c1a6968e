// Attention with sinks over the paged KV cache, one row at a time. A CTA handles one row of the step, one
// key/value head with the query heads that share it, and one or more chunks of eight pages. Each of the CTA's
// eight warps computes the exponentials of one page of a chunk; then the warp computes 8 columns of the
// chunk's output (row_pages.cuh). The keys and values of the next chunk are loaded as soon as the current
// chunk's registers are free. Scores and outputs are computed by mma.m16n8k16: the upper 8 rows of A are the
// (up to 8) query heads, the lower 8 are zero. The warp and chunk of a page depend only on the row's
// position, so a row gets the same bits in every batch.
#include "backend/cuda/attention/args.h"
#include "backend/cuda/attention/launch.h"
#include "backend/cuda/attention/partials.cuh"
#include "backend/cuda/attention/row_pages.cuh"
#include "backend/cuda/layout/activations.h"
#include "backend/cuda/pipeline/ticket.cuh"
#include "backend/cuda/ptx/load.cuh"

namespace nibble::cuda {
namespace {

// `num_joining`: largest number of CTAs that merge the chunks of one row and key/value head through the
// mailbox; 0 if the last CTA to finish merges the chunks alone.
struct LaunchedArgs : AttendArgs {
  int num_joining;
};

template <Chunks chunks>
__device__ RowShare share_of_cta(const AttendArgs& args) {
  RowShare share;
  share.kv_head = static_cast<int>(blockIdx.x);
  share.chunk_step = static_cast<int>(gridDim.y);
  share.launch_row = static_cast<int>(blockIdx.z);
  share.row_index = args.first_row + share.launch_row;
  share.row = args.input.rows[share.row_index];
  const int last = share.row.position, first = args.window ? max(0, last - args.window + 1) : 0;
  share.seen = {first, last};
  share.first_page = first / kPagePositions;
  share.num_pages = last / kPagePositions - share.first_page + 1;
  share.num_chunks = chunks == Chunks::kOne ? 1 : (share.num_pages + kChunkPages - 1) / kChunkPages;
  // Chunks are assigned from the last one down: blockIdx.y == 0 takes the chunk that contains the row's own
  // key.
  share.first_chunk = share.num_chunks - 1 - static_cast<int>(blockIdx.y);
  return share;
}

// Loads the row's own q, k and v, and stores them as RowQkv. Thread i loads elements i % 32 and i % 32 + 32
// of query head i / 32. The first 32 threads also load two key elements each, the next 64 one value element
// each. The loads have no branch, so that the compiler can issue many at once; threads of absent heads
// repeat the last head's loads.
template <KvFormat format>
class OwnRowLoad {
 public:
  __device__ OwnRowLoad(const AttendArgs& args, const RowShare& share, int group_heads, const QkvRow& parts) {
    static_assert(kMaxGroupHeads * kHalf == kAttendThreads);
    const int i = static_cast<int>(threadIdx.x), element = i % kHalf, head = i / kHalf,
              q = (share.kv_head * group_heads + min(head, group_heads - 1)) * kHeadDim + element;
    query_ = {parts(q), parts(q + kHalf)};
    const int k = (args.num_heads + share.kv_head) * kHeadDim, v = k + args.num_kv_heads * kHeadDim;
    first_ = parts(i < kHalf ? k + i : v + min(i - kHalf, kHeadDim - 1));
    second_ = parts(k + kHalf + i % kHalf);
  }
  __device__ void store_queries(const Rotation& rotation, RowQkv<format>& own) const {
    const int i = static_cast<int>(threadIdx.x);
    const float2 rotated = rotation(query_.x, query_.y);
    own.queries[i / kHalf][i % kHalf] = query_of(rotated.x);
    own.queries[i / kHalf][i % kHalf + kHalf] = query_of(rotated.y);
  }
  __device__ void store_key_and_value(const Rotation& rotation, RowQkv<format>& own) const {
    const int i = static_cast<int>(threadIdx.x);
    if (i < kHalf) {
      const float2 rotated = rotation(first_, second_);
      own.key[i] = KvCodec<format>::encode(rotated.x);
      own.key[i + kHalf] = KvCodec<format>::encode(rotated.y);
    } else if (i < 3 * kHalf) {
      own.value[i - kHalf] = KvCodec<format>::encode(first_);
    }
  }

 private:
  float2 query_;
  float first_, second_;
};

struct RowOutputs {
  const AttendArgs& args;
  const RowShare& share;
  int group_heads;
  // Applies the sink, and stores elements d and d + 1 of a head's output.
  __device__ void store(const Joined& joined, int head, int d, float sink) const {
    const SinkFactor finish(joined.reference, joined.sum, sink * kLog2E);
    const auto put = [&](int element, float out) {
      args.out.data[element_of(share.row_index, share.kv_head * group_heads + head, args.num_heads,
                               args.out.image_rows, element)] = finish(out);
    };
    put(d, joined.out.x);
    put(d + 1, joined.out.y);
  }
};

// Finds the partial softmaxes of a row's chunks in global memory.
struct RowPartials {
  float* data;
  size_t first;  // index in `data` of the row's first chunk, in units of kPartialFloats
  __device__ RowPartials(const LaunchedArgs& args, const RowShare& share)
      : data(args.num_joining > 0 ? args.mailbox : args.partials),
        first((size_t{1} * share.launch_row * args.num_kv_heads + share.kv_head) * args.max_chunks) {}
  __device__ Partial at(int chunk) const { return {data + (first + chunk) * kPartialFloats}; }
};

// Shared memory of a CTA: pages of the current chunk; after all chunks, the partial softmaxes that the CTA
// merges.
union RowResults {
  ChunkPages of_pages;
  JoinedTile of_chunks;
};

struct ChunkOfRow {
  const ChunkPages& pages;
  int chunk;  // index of the chunk in the row
  // The exponentials of a head on a page are 2^(score - R), where R is the softmax reference. True if R
  // differs from head_reference() for at least one head and page.
  bool is_scaled;
};

// Multiplies a chunk's exponentials with its values. If the row has only this chunk, stores the row's
// output; otherwise stores the chunk's partial softmax.
__device__ void finish_chunk(const RowOutputs& outputs, const RowPartials& partials, const ChunkOfRow& of,
                             float sink) {
  const auto& [pages, chunk, is_scaled] = of;
  const RowShare& share = outputs.share;
  const ChunkSums sums = multiply_values(pages, min(kAttendWarps, share.num_pages - chunk * kChunkPages),
                                         head_reference(sink * kLog2E), is_scaled);
  if (share.num_chunks > 1) {
    sums.store(partials.at(chunk), outputs.group_heads);
    return;
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane / 4 < outputs.group_heads)
    outputs.store({sums.reference, sums.sum, sums.out}, lane / 4, 8 * warp + 2 * (lane % 4), sink);
}

// Merges a row's chunks in several CTAs, each of which takes one head at a time and polls the mailbox for
// that head's results of all chunks. `of_row`: partial softmax of the row's first chunk, in the mailbox.
__device__ void join_by_mailbox(const LaunchedArgs& args, const RowOutputs& outputs, JoinedTile& tile,
                                const Partial& of_row) {
  const RowShare& share = outputs.share;
  const int num_joining = min(min(share.num_chunks, share.chunk_step), args.num_joining),
            own = static_cast<int>(blockIdx.y);
  if (own >= num_joining) return;
  for (int head = own; head < outputs.group_heads; head += num_joining) {
    const float sink = load_now(args.sinks + share.kv_head * outputs.group_heads + head);
    const Joined joined = join_head(tile, of_row, head, share.num_chunks);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 0) outputs.store(joined, head, 2 * lane, from_here(sink));
  }
}

// Merges a row's chunks in the last CTA to finish, one head per warp. `of_row`: partial softmax of the row's
// first chunk.
template <int kAhead>
__device__ void join_in_last_cta(const LaunchedArgs& args, const RowOutputs& outputs, const Partial& of_row) {
  const RowShare& share = outputs.share;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float sink =
      load_now(args.sinks + share.kv_head * outputs.group_heads + min(warp, outputs.group_heads - 1));
  unsigned* const ticket = args.tickets + share.launch_row * args.num_kv_heads + share.kv_head;
  if (!is_last_of(ticket, static_cast<unsigned>(min(share.num_chunks, share.chunk_step)))) return;
  if (warp >= outputs.group_heads) return;
  outputs.store(join_chunks<kAhead>(of_row, warp, share.num_chunks), warp, 2 * lane, from_here(sink));
}

// The kernel of attend_rows(). `in_trees`: whether the step has draft trees. If so, a row may see its last
// positions along a path (RowPath); if not, position p has slot p. `in_trees` changes only the addresses from
// which keys and values are read. `num_ctas`: CTAs that must fit on an SM. `group_heads`: query heads per
// key/value head. The host computes this number, because a division in the kernel is slow.
template <KvFormat format, bool in_trees, Chunks chunks, int num_ctas>
__global__ void __launch_bounds__(kAttendThreads, num_ctas)
    attend_kernel(const __grid_constant__ LaunchedArgs args, int group_heads, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  __shared__ RowQkv<format> own;
  NIBBLE_DYNAMIC_SHARED(__align__(16) uint8_t, memory);
  RowResults& results = *reinterpret_cast<RowResults*>(memory);
  // The code from here to wait_for_predecessor() reads only the step's input, weights, and keys and values of
  // earlier steps, none of which depend on the previous launch.
  const RowShare share = share_of_cta<chunks>(args);
  if (share.first_chunk < 0) return;  // this CTA has no chunk: its row has fewer chunks than the longest row
  constexpr bool has_one_chunk{chunks != Chunks::kSeveralOfCta};
  WarpPages<format, in_trees> pages(args, share);
  if (args.writes_kv) pages.load();
  if constexpr (!has_one_chunk) pages.find_next(share.first_chunk - share.chunk_step);
  pages.prefetch_next();
  const Rotation rotation(args.rope, static_cast<int>(threadIdx.x) % kHalf, share.row.position);
  // The sink of head lane / 4 is used only after the wait: its first use stalls until the loads of pages,
  // which were issued earlier, have arrived. A stall before the wait would delay the loads of q.
  const float sink = load_now(args.sinks + share.kv_head * group_heads +
                              min(static_cast<int>(threadIdx.x) % 32 / 4, group_heads - 1));
  // This kernel leaves room on the SMs, so the next launch can already start and prefetch its first weights.
  let_successor_start_early();
  wait_for_predecessor(timestamps);

  const QkvRow parts = qkv_row(args, share.row_index);
  if (!args.writes_kv) pages.load();
  const OwnRowLoad<format> own_load(args, share, group_heads, parts);
  const bool writes_kv = args.writes_kv && blockIdx.y == 0;
  own_load.store_queries(rotation, own);
  if (writes_kv) own_load.store_key_and_value(rotation, own);
  __syncthreads();

  const RowOutputs outputs{args, share, group_heads};
  const RowPartials partials(args, share);
#pragma unroll 1
  for (int chunk = share.first_chunk; chunk >= 0; chunk = has_one_chunk ? -1 : chunk - share.chunk_step) {
    if (chunk != share.first_chunk) {
      __syncthreads();  // waits until all warps have multiplied the previous chunk
      pages.prefetch_next();
    }
    bool has_own_reference = false;
    if (pages.has_page()) {
      if (writes_kv) pages.add_own(chunk, own);
      has_own_reference =
          pages.attend(chunk, own, head_reference(from_here(sink) * kLog2E), results.of_pages);
    } else {  // This chunk, the row's last, has no page for this warp.
      pages.load_next_keys();
    }
    pages.load_next_values();
    pages.advance();
    if constexpr (!has_one_chunk) pages.find_next(chunk - 2 * share.chunk_step);
    const bool is_scaled = __syncthreads_or(has_own_reference);
    finish_chunk(outputs, partials, {results.of_pages, chunk, is_scaled}, sink);
  }
  if (share.num_chunks == 1) return;
  if (num_ctas == kAttendCtas && args.num_joining > 0)
    join_by_mailbox(args, outputs, results.of_chunks, partials.at(0));
  else
    join_in_last_cta<num_ctas == kAttendCtas ? 32 : 2>(args, outputs, partials.at(0));
}

// Returns the number of CTAs that must fit on an SM. A CTA mostly waits for memory, so a launch with many
// CTAs is faster if more of them run at once. BF16 pages take too many registers for more than kAttendCtas
// (docs/decisions/0027).
constexpr int ctas_per_sm(KvFormat format, Chunks chunks, bool is_crowded) {
  if (!is_crowded || format == KvFormat::kBf16 || chunks == Chunks::kOneOfCta) return kAttendCtas;
  return chunks == Chunks::kOne ? 4 : 3;
}

template <KvFormat format, bool in_trees, bool is_crowded, typename F>
void with_kernel_of(Chunks chunks, const F& f) {
  const auto call = [&](auto of_chunks) {
    constexpr Chunks kChunks{of_chunks()};
    f(attend_kernel<format, in_trees, kChunks, ctas_per_sm(format, kChunks, is_crowded)>);
  };
  if (chunks == Chunks::kOne) call(std::integral_constant<Chunks, Chunks::kOne>());
  if (chunks == Chunks::kOneOfCta) call(std::integral_constant<Chunks, Chunks::kOneOfCta>());
  if (chunks == Chunks::kSeveralOfCta) call(std::integral_constant<Chunks, Chunks::kSeveralOfCta>());
}

template <typename F>
void with_kernel(KvFormat format, bool in_trees, Chunks chunks, bool is_crowded, const F& f) {
  const auto with_format = [&](auto of_format) {
    constexpr KvFormat kFormat{of_format()};
    if (in_trees && is_crowded) return with_kernel_of<kFormat, true, true>(chunks, f);
    if (in_trees) return with_kernel_of<kFormat, true, false>(chunks, f);
    if (is_crowded) return with_kernel_of<kFormat, false, true>(chunks, f);
    with_kernel_of<kFormat, false, false>(chunks, f);
  };
  if (format == KvFormat::kBf16)
    with_format(std::integral_constant<KvFormat, KvFormat::kBf16>());
  else
    with_format(std::integral_constant<KvFormat, KvFormat::kE4m3>());
}

}  // namespace

void prepare_attend_rows() {
  for (const KvFormat format : {KvFormat::kBf16, KvFormat::kE4m3})
    for (const bool in_trees : {false, true})
      for (const Chunks chunks : {Chunks::kOne, Chunks::kOneOfCta, Chunks::kSeveralOfCta})
        for (const bool is_crowded : {false, true})
          with_kernel(format, in_trees, chunks, is_crowded,
                      [](auto* kernel) { prefer_shared_memory(kernel); });
}

void attend_rows(const LaunchContext& gpu, int num_rows, const AttendArgs& args) {
  const AttendLaunch shape =
      attend_launch(gpu.target, num_rows, args.num_kv_heads, args.max_chunks, args.mailbox_partials);
  const int group_heads = args.num_heads / args.num_kv_heads;
  const LaunchedArgs launched{args, shape.joins_by_mailbox ? group_heads : 0};
  with_kernel(args.pages.format, args.input.paths != nullptr, shape.chunks, shape.is_crowded,
              [&](auto* kernel) {
                launch(gpu, {Operation::kAttend, "attend"}, kernel,
                       {dim3(static_cast<unsigned>(args.num_kv_heads),
                             static_cast<unsigned>(shape.ctas_of_head), static_cast<unsigned>(num_rows)),
                        kAttendThreads, sizeof(RowResults)},
                       launched, group_heads);
              });
}

}  // namespace nibble::cuda
