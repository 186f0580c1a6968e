// Attention with sinks over the paged KV cache, one row at a time. A CTA handles one row of the step, one
// key/value head with the query heads that share it, and chunks of eight pages, one page per warp. The keys
// and values of a CTA's next chunk are loaded as soon as the registers of the current chunk's are free.
// Scores and outputs are tensor-core products with 16 rows; the (up to 8) query heads fill the upper half,
// the lower half is zero. Only the row's position decides which page goes to which warp and chunk, and the
// order in which their results are merged. So a row gets the same bits in every batch.
//
// Registers of mma.m16n8k16 in lane (g = lane / 4, t = lane % 4): the first product is heads x positions. A
// lane's B registers are 16 bytes of the key of position g, and it gets the scores of head g at positions 2 t
// and 2 t + 1. The second product, heads x D over positions, needs exactly these as its A registers. A value
// is read as 16 bytes of D for one position; byte permutations pair two positions, so that the lane's column
// n of tile j is element 8 n + j of D.
#include <algorithm>

#include "backend/cuda/attention/args.h"
#include "backend/cuda/attention/partials.cuh"
#include "backend/cuda/layout/image.h"
#include "backend/cuda/pipeline/ticket.cuh"
#include "backend/cuda/ptx/load.cuh"
#include "backend/cuda/ptx/mma.cuh"

namespace nibble::cuda {
namespace {

constexpr int kAttendCtas{2};  // per SM

// c += A B, where the lower 8 rows of A are zero.
__device__ void mma_upper(float (&c)[4], uint32_t a0, uint32_t a2, uint32_t b0, uint32_t b1) {
  mma_bf16(c, {a0, 0, a2, 0}, b0, b1);
}

// The key and value of one head of the current row: 32 threads hold two key elements each, 64 threads one
// value element each. All threads load without a branch, so the compiler issues these loads together with
// those before and after them.
template <KvFormat format>
class CurrentKeyValue {
 public:
  using Element = typename KvCodec<format>::Element;

  __device__ CurrentKeyValue(const QkvRow& parts, int num_heads, int num_kv_heads, int kv_head) {
    const int i = static_cast<int>(threadIdx.x), k = (num_heads + kv_head) * kHeadDim,
              v = k + num_kv_heads * kHeadDim;
    first_ = parts(i < kHalf ? k + i : v + min(i - kHalf, kHeadDim - 1));
    second_ = parts(k + kHalf + i % kHalf);
  }
  // Writes the rotated key and the value, encoded as in the cache, to two arrays of D elements.
  __device__ void store(const Rotation& rotation, Element* key, Element* value) const {
    const int i = static_cast<int>(threadIdx.x);
    if (i < kHalf) {
      const float2 rotated = rotation(first_, second_);
      key[i] = KvCodec<format>::encode(rotated.x);
      key[i + kHalf] = KvCodec<format>::encode(rotated.y);
    } else if (i < 3 * kHalf) {
      value[i - kHalf] = KvCodec<format>::encode(first_);
    }
  }

 private:
  float first_, second_;
};

// The keys and values of one page in a lane's registers.
template <KvFormat format>
struct PageRegisters {
  using Element = typename KvCodec<format>::Element;
  using Eight = typename KvCodec<format>::Eight;
  Eight keys[4][2];    // position 8 n + g, elements 32 half + 8 t ..
  Eight values[2][4];  // position position_of(half, i), elements 8 g ..

  // Distance in positions from the lane's first value to its value [half][i].
  static constexpr int values_apart(int half, int i) { return 16 * half + 8 * (i / 2) + i % 2; }
  static __device__ int position_of(int half, int i) {
    return values_apart(half, i) + 2 * (static_cast<int>(threadIdx.x) % 4);
  }
  // Calls keys_from(position, element) with the lane's own indices. The returned function at(positions,
  // elements) gives the address that many positions and elements further on; its arguments are compile-time
  // constants.
  template <typename KeysFrom>
  __device__ void load_keys(const KeysFrom& keys_from) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const auto key_at = keys_from(g, size_t{8} * t);
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        keys[n][half] = *reinterpret_cast<const Eight*>(key_at(8 * n, 32 * half));
  }
  // `to_value`: distance from a key to its value, in elements.
  template <typename KeysFrom>
  __device__ void load_values(const KeysFrom& keys_from, size_t to_value) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const auto value_at = keys_from(2 * t, to_value + 8 * g);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        values[half][i] = *reinterpret_cast<const Eight*>(value_at(values_apart(half, i), 0));
  }
  // Inserts the key and value at `position` of the page: those of the current row, which were not in the
  // cache yet when the page was loaded.
  __device__ void replace(int position, const Element* key, const Element* value) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        if (8 * n + g == position) keys[n][half] = *reinterpret_cast<const Eight*>(key + 32 * half + 8 * t);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (position_of(half, i) == position)
          values[half][i] = *reinterpret_cast<const Eight*>(value + 8 * g);
  }
};

// A lane's part of a page's partial softmax, for head g: the sum of exponentials 2^(score - reference), and
// the outputs before the division, in product tile j, columns 2 t and 2 t + 1.
struct PageSums {
  float reference, sum;
  float out[8][2];
};

// Returns the partial softmax of a page. `queries`: the lane's A registers of the four 16-wide steps over D.
// Positions outside [first, last] are masked; at least one position of the page is inside. Most pages are
// entirely inside and skip the masking code. Calls keys_are_used() when the registers of the page's keys may
// be overwritten.
template <KvFormat format, typename KeysAreUsed>
__device__ PageSums attend_page(PageRegisters<format>& page, int page_first, int first, int last,
                                const uint32_t (&queries)[4][2], const KeysAreUsed& keys_are_used) {
  const int t = threadIdx.x % 4;
  const bool has_end = page_first + kPagePositions - 1 > last;
  float scores[4][4]{};  // tile n: positions 8 n + {2 t, 2 t + 1}
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint4 k = KvCodec<format>::to_bf16(page.keys[n][half]);
      mma_upper(scores[n], queries[2 * half][0], queries[2 * half][1], k.x, k.y);
      mma_upper(scores[n], queries[2 * half + 1][0], queries[2 * half + 1][1], k.z, k.w);
    }
  keys_are_used();
  if (has_end || page_first < first) {
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c)
        if (const int position = page_first + 8 * n + 2 * t + c; position < first || position > last)
          scores[n][c] = -INFINITY;
  }
  if (has_end) {  // positions not written yet may hold anything, even NaN
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (page_first + PageRegisters<format>::position_of(half, i) > last) page.values[half][i] = {};
  }
  PageSums sums{exponentials_of_page<0>(scores), 0, {}};
  float total[4]{};
#pragma unroll
  for (int half = 0; half < 2; ++half) {  // 16 positions
    uint4 v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = KvCodec<format>::to_bf16(page.values[half][i]);
    const uint32_t a0 = pair_of(scores[2 * half][0], scores[2 * half][1]);
    const uint32_t a2 = pair_of(scores[2 * half + 1][0], scores[2 * half + 1][1]);
    mma_upper(total, a0, a2, kOnes, kOnes);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const auto word = [&](const uint4& x) {
        return j / 2 == 0 ? x.x : j / 2 == 1 ? x.y : j / 2 == 2 ? x.z : x.w;
      };
      const uint32_t selector = j % 2 ? 0x7632u : 0x5410u;
      float c[4] = {sums.out[j][0], sums.out[j][1], 0, 0};
      mma_upper(c, a0, a2, __byte_perm(word(v[0]), word(v[1]), selector),
                __byte_perm(word(v[2]), word(v[3]), selector));
      sums.out[j][0] = c[0];
      sums.out[j][1] = c[1];
    }
  }
  sums.sum = total[0];
  return sums;
}

// Returns where the key of position `lane` of the page is, as a row of a draft tree sees it: an offset in
// units of kHeadDim elements from the start of the layer's cache. Positions after the row's own are masked,
// so any slot will do for them.
__device__ uint32_t key_on_path(const AttendArgs& args, int row_index, const RowInput& row, int page,
                                int kv_head) {
  const RowPath path = args.input.paths[row_index];
  const int position = page * kPagePositions + static_cast<int>(threadIdx.x) % 32;
  const bool is_on_path = position >= path.first && position <= row.position;
  const int slot = is_on_path
                       ? static_cast<int>(args.input.page_ids[path.slots + static_cast<uint32_t>(position)])
                       : position;
  const uint32_t id = page_id(args.pages, args.input, row, slot / kPagePositions);
  return (2 * id * static_cast<uint32_t>(args.num_kv_heads) + static_cast<uint32_t>(kv_head)) *
             kPagePositions +
         static_cast<uint32_t>(slot % kPagePositions);
}

// Variants of the kernel. kOne: every row has one chunk. kOneOfCta: rows have several chunks, one per CTA.
// kSeveralOfCta: several chunks per CTA. A loop over chunks costs a one-chunk row half a microsecond. The
// code that merges chunks is two thirds of the instructions, and its address decides which of a layer's
// kernels stay in an SM's instruction cache (docs/decisions/0016).
enum class Chunks { kOne, kOneOfCta, kSeveralOfCta };

// num_joining: maximum number of CTAs that merge a row's chunks of a key/value head, through the mailbox. 0:
// the last CTA to finish merges them.
struct LaunchedArgs : AttendArgs {
  int num_joining;
};

// `in_trees`: rows may see their last positions along a path of a draft tree (RowPath); otherwise the slot of
// each key is its position. This changes only where the keys are, not what a lane computes. `group_heads`:
// query heads per key/value head, passed because computing it in the kernel takes a division.
template <KvFormat format, bool in_trees, Chunks chunks>
__global__ void __launch_bounds__(kAttendThreads, kAttendCtas)
    attend_kernel(const __grid_constant__ LaunchedArgs args, int group_heads, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  using Element = typename KvCodec<format>::Element;
  __shared__ __align__(16) __nv_bfloat16 queries[kMaxGroupHeads][kHeadDim];
  __shared__ __align__(16) Element own_key[kHeadDim], own_value[kHeadDim];
  // The results of the pages of one chunk; after all chunks, one head's results of several chunks. With space
  // for two chunks of pages, the attention of a layer took 0.1 us longer (docs/decisions/0016).
  __shared__ __align__(16) union {
    float of_pages[kAttendWarps][kPartialFloats];
    JoinedTile of_chunks;
  } results;
  const int kv_head = static_cast<int>(blockIdx.x), chunk_step = static_cast<int>(gridDim.y);
  const int launch_row = static_cast<int>(blockIdx.z), row_index = args.first_row + launch_row;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;

  // The step's input, the weights and the cache of earlier steps do not depend on the kernels launched before
  // this one, so they are read before the wait for these kernels.
  const RowInput row = args.input.rows[row_index];
  const int last = row.position, first = args.window ? max(0, last - args.window + 1) : 0;
  const int first_page = first / kPagePositions, num_pages = last / kPagePositions - first_page + 1;
  constexpr bool has_one_chunk{chunks != Chunks::kSeveralOfCta};  // per CTA
  const int num_chunks = chunks == Chunks::kOne ? 1 : (num_pages + kChunkPages - 1) / kChunkPages;
  // Chunks are assigned last to first, so the CTA with blockIdx.y == 0 has the chunk with the row's own key.
  const int first_chunk = num_chunks - 1 - static_cast<int>(blockIdx.y);
  if (first_chunk < 0) return;  // the grid covers the longest row of the graph
  const size_t to_value = size_t{1} * args.num_kv_heads * kPageElements;
  // The warp's page of a chunk. Its location is an index, not a pointer, so that the compiler knows that the
  // page is in global memory.
  struct Place {
    bool is_there;      // false: the row has no such page
    uint32_t keys;      // start of its keys, in pages of a head from the start of the cache
    uint32_t lane_key;  // in_trees only: key_on_path()
  };
  const auto place_of = [&](int chunk) {
    Place place{chunk >= 0 && chunk * kChunkPages + warp < num_pages, 0, 0};
    if (!place.is_there) return place;
    const int page = first_page + chunk * kChunkPages + warp;
    place.keys = 2 * page_id(args.pages, args.input, row, page) * args.num_kv_heads + kv_head;
    if constexpr (in_trees) place.lane_key = key_on_path(args, row_index, row, page, kv_head);
    return place;
  };
  Element* const cache = static_cast<Element*>(args.pages.data);
  const auto keys_from = [cache](const Place& place) {
    return [cache, place](int position, size_t element) {
      if constexpr (in_trees) {
        const Element* const from = cache + element;
        return [from, position, place](int positions, int elements) {
          return from + size_t{1} * __shfl_sync(~0u, place.lane_key, position + positions) * kHeadDim +
                 elements;
        };
      } else {
        const Element* const from =
            cache + size_t{1} * place.keys * kPageElements + (position * kHeadDim + element);
        return [from](int positions, int elements) { return from + (positions * kHeadDim + elements); };
      }
    };
  };
  // A warp's registers hold only one page. Its page of the next chunk is prefetched to L2: each lane
  // prefetches one position.
  const auto ask_for = [&](const Place& place) {
    if (!place.is_there) return;
    const Element* const key =
        cache + (in_trees ? place.lane_key : place.keys * kPagePositions + static_cast<uint32_t>(lane)) *
                    size_t{kHeadDim};
    prefetch_to_l2(key);
    prefetch_to_l2(key + to_value);
  };
  Place here = place_of(first_chunk);
  PageRegisters<format> cached;
  const auto load_first = [&] {
    if (!here.is_there) return;
    cached.load_keys(keys_from(here));
    cached.load_values(keys_from(here), to_value);
  };
  if (args.writes_kv) load_first();
  Place next{};
  if constexpr (!has_one_chunk) next = place_of(first_chunk - chunk_step);
  ask_for(next);
  const int element = static_cast<int>(threadIdx.x) % kHalf;
  const Rotation rotation(args.rope, element, row.position);
  // Each warp merges the results of one head. Load the sink now, but do not use it until after the products:
  // a use here would stall on the page loads issued before it, and so delay the loads of q.
  const float sink = warp < group_heads ? load_now(args.sinks + kv_head * group_heads + warp) : 0.0f;
  // The CTAs of this kernel leave SMs free, on which the next launch can prefetch its first weights.
  let_successor_start_early();
  wait_for_predecessor(timestamps);

  const QkvRow parts =
      qkv_row(args.parts, args.has_rest, row_index, args.num_tokens, args.num_heads, args.num_kv_heads);
  if (!args.writes_kv) load_first();
  static_assert(kMaxGroupHeads * kHalf == kAttendThreads);
  // Load without a branch, so that the loads of the row's own q, k and v are issued together. Threads of
  // heads that do not exist repeat the last head.
  const int own_head = static_cast<int>(threadIdx.x) / kHalf,
            q = (kv_head * group_heads + min(own_head, group_heads - 1)) * kHeadDim + element;
  const float first_of_q = parts(q), second_of_q = parts(q + kHalf);
  const CurrentKeyValue<format> current(parts, args.num_heads, args.num_kv_heads, kv_head);
  const bool writes_kv = args.writes_kv && blockIdx.y == 0;
  const float2 rotated = rotation(first_of_q, second_of_q);
  queries[own_head][element] = query_of(rotated.x);
  queries[own_head][element + kHalf] = query_of(rotated.y);
  if (writes_kv) current.store(rotation, own_key, own_value);
  __syncthreads();

  // Stores elements d and d + 1 of a head.
  const auto store = [&](const Joined& joined, int head, int d, float sink_of_head) {
    const SinkFactor finish(joined.reference, joined.sum, sink_of_head * kLog2E);
    const auto put = [&](int element, float out) {
      args.out.data[element_of(row_index, kv_head * group_heads + head, args.num_heads, args.out.image_rows,
                               element)] = finish(out);
    };
    put(d, joined.out.x);
    put(d + 1, joined.out.y);
  };
  const size_t first_partial = (size_t{1} * launch_row * args.num_kv_heads + kv_head) * args.max_chunks;
  float* const partials = args.num_joining > 0 ? args.mailbox : args.partials;
#pragma unroll 1
  for (int chunk = first_chunk; chunk >= 0; chunk = has_one_chunk ? -1 : chunk - chunk_step) {
    if (chunk != first_chunk) {
      __syncthreads();  // until the pages of the previous chunk have been merged
      ask_for(next);
    }
    const int first_of_page = (first_page + chunk * kChunkPages + warp) * kPagePositions;
    if (here.is_there) {
      if (writes_kv && last / kPagePositions == first_of_page / kPagePositions) {
        const int position = last % kPagePositions;
        cached.replace(position, own_key, own_value);
        // Each lane copies one word of the key and one of the value.
        if (lane < static_cast<int>(sizeof(own_key) / sizeof(uint32_t))) {
          Element* const keys = cache + size_t{1} * here.keys * kPageElements + position * kHeadDim;
          const auto put = [&](Element* to, const Element* from) {
            reinterpret_cast<uint32_t*>(to)[lane] = reinterpret_cast<const uint32_t*>(from)[lane];
          };
          put(keys, own_key);
          put(keys + to_value, own_value);
        }
      }
      uint32_t a[4][2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 words = *reinterpret_cast<const uint4*>(&queries[g][32 * half + 8 * t]);
        a[2 * half][0] = words.x;
        a[2 * half][1] = words.y;
        a[2 * half + 1][0] = words.z;
        a[2 * half + 1][1] = words.w;
      }
      const PageSums page_sums = attend_page(cached, first_of_page, first, last, a, [&] {
        if (next.is_there) cached.load_keys(keys_from(next));
      });
      const Partial own{results.of_pages[warp]};
#pragma unroll
      for (int n = 0; n < 4; ++n) {  // elements 16 t + 4 n to 16 t + 4 n + 3
        const float(&out)[8][2] = page_sums.out;
        const int c = n / 2, j = n % 2 * 4;
        own.four(g, 4 * t + n) = make_float4(out[j][c], out[j + 1][c], out[j + 2][c], out[j + 3][c]);
      }
      if (t == 0) {
        own.reference(g) = page_sums.reference;
        own.sum(g) = page_sums.sum;
      }
    } else if (next.is_there) {  // the row's last chunk is not full and has no page for this warp
      cached.load_keys(keys_from(next));
    }
    if (next.is_there) cached.load_values(keys_from(next), to_value);
    here = next;
    if constexpr (!has_one_chunk) next = place_of(chunk - 2 * chunk_step);
    __syncthreads();
    if (warp >= group_heads) continue;
    // Lane p holds the reference, then the factor, of page p.
    const int num_partials = min(kAttendWarps, num_pages - chunk * kChunkPages);
    float factor = -INFINITY, sum = 0;
    if (lane < num_partials) {
      const Partial part{results.of_pages[lane]};
      factor = part.reference(warp);
      sum = part.sum(warp);
    }
    Joined joined;
    joined.reference = reduce_warp(factor, Maximum());
    factor = power_of_two(factor - joined.reference);
#pragma unroll
    for (int p = 0; p < kAttendWarps; ++p)
      if (p < num_partials)
        joined.add(__shfl_sync(~0u, factor, p), __shfl_sync(~0u, sum, p),
                   Partial{results.of_pages[p]}.two(warp, lane));
    if (num_chunks == 1) {
      store(joined, warp, 2 * lane, from_here(sink));
    } else {
      const Partial part{partials + (first_partial + chunk) * kPartialFloats};
      store_relaxed(&part.two(warp, lane), {as_word(joined.out.x), as_word(joined.out.y)});
      if (lane == 0) {
        store_relaxed(&part.reference(warp), as_word(joined.reference));
        store_relaxed(&part.sum(warp), as_word(joined.sum));
      }
    }
  }
  if (num_chunks == 1) return;
  const int num_ctas = min(num_chunks, chunk_step);
  const Partial begin{partials + first_partial * kPartialFloats};
  if (args.num_joining > 0) {
    const int num_joining = min(num_ctas, args.num_joining), own = static_cast<int>(blockIdx.y);
    if (own >= num_joining) return;
    for (int head = own; head < group_heads; head += num_joining) {
      const float sink_of_head = load_now(args.sinks + kv_head * group_heads + head);
      const Joined joined = join_head(results.of_chunks, begin, head, num_chunks);
      if (warp == 0) store(joined, head, Partial::element_at(head, 2 * lane), from_here(sink_of_head));
    }
    return;
  }
  unsigned* const ticket = args.tickets + launch_row * args.num_kv_heads + kv_head;
  if (!is_last_of(ticket, static_cast<unsigned>(num_ctas))) return;
  // The last CTA of a row and key/value head merges the chunks. It waits mostly for memory, so a lane loads
  // outputs of 32 chunks ahead, with references and sums, and replaces each output that it adds with that of
  // 32 chunks later.
  if (warp >= group_heads) return;
  const float2* const outs = &begin.two(warp, lane);
  constexpr int kOutsOfChunk{kPartialFloats / 2};
  float2 ahead[32];
#pragma unroll
  for (int i = 0; i < 32; ++i)
    if (i < num_chunks) ahead[i] = __ldcg(outs + i * kOutsOfChunk);
  float reference = -INFINITY, sum = 0;  // of chunk `lane` of the current 32
  const auto load_chunk = [&](int c) {
    reference = c < num_chunks ? __ldcg(&begin.reference(warp) + c * kPartialFloats) : -INFINITY;
    sum = c < num_chunks ? __ldcg(&begin.sum(warp) + c * kPartialFloats) : 0;
  };
  load_chunk(lane);
  Joined joined;
  joined.reference = reference;
  for (int c = lane + 32; c < num_chunks; c += 32)
    joined.reference = fmaxf(joined.reference, __ldcg(&begin.reference(warp) + c * kPartialFloats));
  joined.reference = reduce_warp(joined.reference, Maximum());
  for (int first_of_32 = 0; first_of_32 < num_chunks; first_of_32 += 32) {
    const float factor = power_of_two(reference - joined.reference), sum_now = sum;
    load_chunk(first_of_32 + 32 + lane);
    const float2* const later = outs + (first_of_32 + 32) * kOutsOfChunk;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      if (first_of_32 + i >= num_chunks) break;
      joined.add(__shfl_sync(~0u, factor, i), __shfl_sync(~0u, sum_now, i), ahead[i]);
      if (first_of_32 + 32 + i < num_chunks) ahead[i] = __ldcg(later + i * kOutsOfChunk);
    }
  }
  store(joined, warp, 2 * lane, from_here(sink));
}

// kMostChunks: maximum chunks per CTA in a step of more than kFewRows rows, which would otherwise wait for
// its longest row. For up to kFewRows rows, the number is chosen so that all CTAs are resident. Several
// chunks in one CTA cost less than several CTAs one after another: the next chunk's pages are loaded while
// the current chunk's are merged.
constexpr int kMostChunks{4}, kFewRows{2};

// Up to this number of chunks, the last CTA to finish merges them. For the chunks of 16,384 positions this
// took 7 us, because the next launch's weights keep memory busy, and one SM gets only its share of the
// bandwidth. More chunks are merged by several CTAs, each of which takes one head at a time and polls that
// head's words of all chunks. For that all CTAs must be resident: attend_rows() checks their number, and
// __launch_bounds__ guarantees kAttendCtas per SM (docs/decisions/0016).
constexpr int kLastJoins{8};

// Calls f(kernel) with the variant of the kernel for these properties of a launch.
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
