// Attention with sinks over the paged KV cache, one row at a time. A CTA handles one row of the step, one
// key/value head with its query heads, and chunks of eight pages, one page per warp; the next chunk is loaded
// as soon as the current one's registers are free. Scores and outputs are tensor-core products with 16 rows:
// the (up to 8) query heads in the upper half, zeros in the lower (registers: row_pages.cuh). Only a row's
// position decides which warp gets a page and how pages are merged: a row gets the same bits in every batch.
#include <algorithm>

#include "backend/cuda/attention/args.h"
#include "backend/cuda/attention/partials.cuh"
#include "backend/cuda/attention/row_pages.cuh"
#include "backend/cuda/layout/activations.h"
#include "backend/cuda/pipeline/ticket.cuh"
#include "backend/cuda/ptx/load.cuh"

namespace nibble::cuda {
namespace {

constexpr int kAttendCtas{2};  // resident per SM

// Variants of the kernel: one chunk per row; several chunks per row, one per CTA; several chunks per CTA. A
// loop over chunks would cost a one-chunk row 0.5 us. Without the merging code, two thirds of the
// instructions, more kernels of a layer stay in an SM's instruction cache (docs/decisions/0016).
enum class Chunks { kOne, kOneOfCta, kSeveralOfCta };

// num_joining: the most CTAs that together merge one row's chunks by mailbox. 0: the last CTA merges them.
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
  // Chunks are assigned last to first: the CTA with blockIdx.y == 0 has the chunk with the row's own key.
  share.first_chunk = share.num_chunks - 1 - static_cast<int>(blockIdx.y);
  return share;
}

// Loads the row's own q, k and v, and stores them as RowQkv. Thread i has elements i % 32 and i % 32 + 32 of
// query head i / 32; 32 threads have two key elements each, 64 threads one value element each. Loads have no
// branch, so the compiler issues them with those around them; threads of absent heads repeat the last head.
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
  // Stores elements d and d + 1 of a head.
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

struct RowPartials {
  float* data;
  size_t first;  // index in `data` of the partial softmax of the row's first chunk
  __device__ RowPartials(const LaunchedArgs& args, const RowShare& share)
      : data(args.num_joining > 0 ? args.mailbox : args.partials),
        first((size_t{1} * share.launch_row * args.num_kv_heads + share.kv_head) * args.max_chunks) {}
  __device__ Partial at(int chunk) const { return {data + (first + chunk) * kPartialFloats}; }
};

// The results of one chunk's pages; after all chunks, one head's results of several chunks. With space for
// two chunks of pages, the attention of a layer took 0.1 us longer (docs/decisions/0016).
union RowResults {
  PagePartials of_pages;
  JoinedTile of_chunks;
};

// Merges a chunk's pages for head number `warp`: stores a partial softmax, or the output of a one-chunk row.
__device__ void finish_chunk(const RowOutputs& outputs, const RowPartials& partials, PagePartials& of_pages,
                             int chunk, float sink) {
  const RowShare& share = outputs.share;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const Joined joined = join_pages(of_pages, warp, min(kAttendWarps, share.num_pages - chunk * kChunkPages));
  if (share.num_chunks == 1)
    outputs.store(joined, warp, 2 * lane, from_here(sink));
  else
    store_chunk(joined, warp, partials.at(chunk));
}

// Merges a row's chunks in several CTAs, which poll one head's words at a time. `of_row`: the first chunk.
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
    if (warp == 0) outputs.store(joined, head, Partial::element_at(head, 2 * lane), from_here(sink));
  }
}

__device__ void join_in_last_cta(const LaunchedArgs& args, const RowOutputs& outputs, const Partial& of_row,
                                 float sink) {
  const RowShare& share = outputs.share;
  unsigned* const ticket = args.tickets + share.launch_row * args.num_kv_heads + share.kv_head;
  if (!is_last_of(ticket, static_cast<unsigned>(min(share.num_chunks, share.chunk_step)))) return;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp >= outputs.group_heads) return;
  outputs.store(join_chunks(of_row, warp, share.num_chunks), warp, 2 * lane, from_here(sink));
}

// `in_trees`: rows may see their last positions along a path of a draft tree (RowPath); this changes where
// keys are, not what a lane computes. `group_heads`: query heads per key/value head, to save a division.
template <KvFormat format, bool in_trees, Chunks chunks>
__global__ void __launch_bounds__(kAttendThreads, kAttendCtas)
    attend_kernel(const __grid_constant__ LaunchedArgs args, int group_heads, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  __shared__ RowQkv<format> own;
  __shared__ __align__(16) RowResults results;
  // Read before the wait: the input, weights and earlier steps' cache do not depend on previous launches.
  const RowShare share = share_of_cta<chunks>(args);
  if (share.first_chunk < 0) return;  // a CTA without work: the grid fits the longest row
  const int warp = threadIdx.x / 32;
  constexpr bool has_one_chunk{chunks != Chunks::kSeveralOfCta};  // whether a CTA has one chunk
  WarpPages<format, in_trees> pages(args, share);
  if (args.writes_kv) pages.load();
  if constexpr (!has_one_chunk) pages.find_next(share.first_chunk - share.chunk_step);
  pages.prefetch_next();
  const Rotation rotation(args.rope, static_cast<int>(threadIdx.x) % kHalf, share.row.position);
  // Each warp merges the results of one head. The sink is loaded now but not used until after the products: a
  // use here would wait for the page loads issued before, and delay the loads of q.
  const float sink = warp < group_heads ? load_now(args.sinks + share.kv_head * group_heads + warp) : 0.0f;
  // This kernel's CTAs leave SMs free, on which the next launch can prefetch its first weights.
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
      __syncthreads();  // until the pages of the previous chunk have been merged
      pages.prefetch_next();
    }
    if (pages.has_page()) {
      if (writes_kv) pages.add_own(chunk, own);
      pages.attend(chunk, own).store(Partial{results.of_pages[warp]});
    } else {  // the row's last chunk has no page for this warp
      pages.load_next_keys();
    }
    pages.load_next_values();
    pages.advance();
    if constexpr (!has_one_chunk) pages.find_next(chunk - 2 * share.chunk_step);
    __syncthreads();
    if (warp < group_heads) finish_chunk(outputs, partials, results.of_pages, chunk, sink);
  }
  if (share.num_chunks == 1) return;
  if (args.num_joining > 0)
    join_by_mailbox(args, outputs, results.of_chunks, partials.at(0));
  else
    join_in_last_cta(args, outputs, partials.at(0), sink);
}

// In a step of more than kFewRows rows, a CTA gets at most kMostChunks chunks, so that no step waits long for
// its longest row. With fewer rows, the grid is limited to resident CTAs. One CTA with several chunks costs
// less than CTAs one after another: it loads the next chunk's pages while it merges the current one's.
constexpr int kMostChunks{4}, kFewRows{2};

// Up to this number of chunks, the last CTA to finish merges them. For 64 chunks (16,384 positions) that took
// 7 us: one SM gets only its share of the bandwidth, while the next launch's prefetches use all of it. More
// chunks are merged by several CTAs (join_by_mailbox()), which must all be resident: attend_rows() checks
// their number, and __launch_bounds__ guarantees kAttendCtas per SM (docs/decisions/0016).
constexpr int kLastJoins{8};

template <typename F>
void with_kernel(KvFormat format, bool in_trees, Chunks chunks, const F& f) {
  const auto with_rest = [&](auto of_format) {
    constexpr KvFormat kFormat{of_format()};
    const auto with_trees = [&](auto of_trees) {
      constexpr bool kInTrees{of_trees()};
      if (chunks == Chunks::kOne) f(attend_kernel<kFormat, kInTrees, Chunks::kOne>);
      if (chunks == Chunks::kOneOfCta) f(attend_kernel<kFormat, kInTrees, Chunks::kOneOfCta>);
      if (chunks == Chunks::kSeveralOfCta) f(attend_kernel<kFormat, kInTrees, Chunks::kSeveralOfCta>);
    };
    if (in_trees)
      with_trees(std::true_type());
    else
      with_trees(std::false_type());
  };
  if (format == KvFormat::kBf16)
    with_rest(std::integral_constant<KvFormat, KvFormat::kBf16>());
  else
    with_rest(std::integral_constant<KvFormat, KvFormat::kE4m3>());
}

}  // namespace

void prepare_attend_rows() {
  for (const KvFormat format : {KvFormat::kBf16, KvFormat::kE4m3})
    for (const bool in_trees : {false, true})
      for (const Chunks chunks : {Chunks::kOne, Chunks::kOneOfCta, Chunks::kSeveralOfCta})
        with_kernel(format, in_trees, chunks, [](auto* kernel) { prefer_shared_memory(kernel); });
}

void attend_rows(const LaunchContext& gpu, int num_rows, const AttendArgs& args) {
  const int at_once = kAttendCtas * gpu.target.num_multiprocessors / (args.num_kv_heads * num_rows),
            least = num_rows <= kFewRows ? 1 : (args.max_chunks + kMostChunks - 1) / kMostChunks,
            ctas_of_head = std::clamp(at_once, least, args.max_chunks);
  const bool are_resident =
      args.num_kv_heads * num_rows * ctas_of_head <= kAttendCtas * gpu.target.num_multiprocessors;
  const int group_heads = args.num_heads / args.num_kv_heads;
  const bool has_room = num_rows * args.num_kv_heads * args.max_chunks <= args.mailbox_partials;
  const LaunchedArgs launched{args,
                              are_resident && has_room && args.max_chunks > kLastJoins ? group_heads : 0};
  const Chunks chunks = args.max_chunks == 1              ? Chunks::kOne
                        : ctas_of_head == args.max_chunks ? Chunks::kOneOfCta
                                                          : Chunks::kSeveralOfCta;
  with_kernel(args.pages.format, args.input.paths != nullptr, chunks, [&](auto* kernel) {
    launch(gpu, {Operation::kAttend, "attend"}, kernel,
           {dim3(static_cast<unsigned>(args.num_kv_heads), static_cast<unsigned>(ctas_of_head),
                 static_cast<unsigned>(num_rows)),
            kAttendThreads},
           launched, group_heads);
  });
}

}  // namespace nibble::cuda
