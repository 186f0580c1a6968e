// How a warp of attend_rows() (rows.cu) finds, loads and multiplies its pages, one of each chunk of its CTA.
//
// Registers of mma.m16n8k16 in lane (g = lane / 4, t = lane % 4): the first product is heads x positions. A
// lane's B registers are 16 bytes of the key of position g. It gets the scores of head g at positions 2 t and
// 2 t + 1, which are its A registers of the second product, heads x D. A value is read as 16 bytes of D for
// one position; byte permutations pair two positions: the lane's column n of tile j is element 8 n + j of D.
#pragma once

#include "backend/cuda/attention/args.h"
#include "backend/cuda/attention/page.cuh"
#include "backend/cuda/attention/partials.cuh"
#include "backend/cuda/ptx/load.cuh"
#include "backend/cuda/ptx/mma.cuh"

namespace nibble::cuda {

struct SeenPositions {  // the positions that a row sees
  int first, last;
};

// A CTA's share of the launch: one row, one key/value head, chunks first_chunk, first_chunk - chunk_step, ...
struct RowShare {
  int kv_head;
  int launch_row, row_index;  // the row's index in the launch and in the step
  RowInput row;
  SeenPositions seen;
  int first_page, num_pages;
  int first_chunk, chunk_step, num_chunks;  // first_chunk is negative if the CTA has no chunk
};

// c += A B, where the lower 8 rows of A are zero.
__device__ inline void mma_upper(float (&c)[4], uint32_t a0, uint32_t a2, uint32_t b0, uint32_t b1) {
  mma_bf16(c, {a0, 0, a2, 0}, b0, b1);
}

// The row's rotated query heads and its encoded key and value (if the CTA writes them), in shared memory.
template <KvFormat format>
struct RowQkv {
  using Element = typename KvCodec<format>::Element;
  alignas(16) __nv_bfloat16 queries[kMaxGroupHeads][kHeadDim];
  alignas(16) Element key[kHeadDim], value[kHeadDim];

  // Loads the lane's A registers of the four 16-wide steps over D.
  __device__ void load_queries(uint32_t (&a)[4][2]) const {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint4 words = *reinterpret_cast<const uint4*>(&queries[g][32 * half + 8 * t]);
      a[2 * half][0] = words.x;
      a[2 * half][1] = words.y;
      a[2 * half + 1][0] = words.z;
      a[2 * half + 1][1] = words.w;
    }
  }
};

template <KvFormat format>
struct PageRegisters {
  using Element = typename KvCodec<format>::Element;
  using Eight = typename KvCodec<format>::Eight;
  Eight keys[4][2];    // [n][half]: key of position 8 n + g, its elements from 32 half + 8 t on
  Eight values[2][4];  // [half][i]: value of position position_of(half, i), from element 8 g on

  // Distance in positions from the lane's first value to its value [half][i].
  static constexpr int values_apart(int half, int i) { return 16 * half + 8 * (i / 2) + i % 2; }
  static __device__ int position_of(int half, int i) {
    return values_apart(half, i) + 2 * (static_cast<int>(threadIdx.x) % 4);
  }
  // keys_from(position, element) returns a function at(positions, elements) for addresses relative to that
  // element: `positions` keys and `elements` elements further on. Both are compile-time constants.
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
  // Replaces the key and value of `position`: the page was loaded before the current row was in the cache.
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

// A lane's part of a page's partial softmax for head g: the sum of exponentials 2^(score - reference), and
// the undivided outputs in product tile j, columns 2 t and 2 t + 1.
struct PageSums {
  float reference, sum;
  float out[8][2];

  __device__ void store(const Partial& to) const {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int n = 0; n < 4; ++n) {  // elements 16 t + 4 n to 16 t + 4 n + 3
      const int c = n / 2, j = n % 2 * 4;
      to.four(g, 4 * t + n) = make_float4(out[j][c], out[j + 1][c], out[j + 2][c], out[j + 3][c]);
    }
    if (t == 0) {
      to.reference(g) = reference;
      to.sum(g) = sum;
    }
  }
};

// Returns the partial softmax of a page. `queries`: the lane's A registers of the four 16-wide steps over D.
// Positions that the row does not see, at most all but one, are masked; most pages skip that code. Calls
// keys_are_used() when the page's key registers may be overwritten.
template <KvFormat format, typename KeysAreUsed>
__device__ PageSums attend_page(PageRegisters<format>& page, int page_first, const SeenPositions& seen,
                                const uint32_t (&queries)[4][2], const KeysAreUsed& keys_are_used) {
  const int t = threadIdx.x % 4;
  const bool has_end = page_first + kPagePositions - 1 > seen.last;
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
  if (has_end || page_first < seen.first) {
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c)
        if (const int position = page_first + 8 * n + 2 * t + c;
            position < seen.first || position > seen.last)
          scores[n][c] = -INFINITY;
  }
  if (has_end) {  // positions not written yet may hold anything, even NaN
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (page_first + PageRegisters<format>::position_of(half, i) > seen.last) page.values[half][i] = {};
  }
  PageSums sums{exponentials_of_page<0>(scores), 0, {}};
  float total[4]{};
#pragma unroll
  for (int half = 0; half < 2; ++half) {  // each product over values covers 16 positions
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

// Finds, loads and attends to a warp's pages. The current chunk's page is in registers, the next one's in L2.
template <KvFormat format, bool in_trees>
class WarpPages {
  using Element = typename KvCodec<format>::Element;

 public:
  __device__ WarpPages(const AttendArgs& args, const RowShare& share)
      : args_(args),
        share_(share),
        to_value_(size_t{1} * args.num_kv_heads * kPageElements),
        cache_(static_cast<Element*>(args.pages.data)),
        here_(find(share.first_chunk)) {}

  __device__ bool has_page() const { return here_.is_there; }  // whether the warp's page exists
  __device__ void load() {
    if (!here_.is_there) return;
    page_.load_keys(keys_from(here_));
    page_.load_values(keys_from(here_), to_value_);
  }
  __device__ void find_next(int chunk) { next_ = find(chunk); }
  // Prefetches the next page to L2, since registers hold only one page: each lane prefetches one position.
  __device__ void prefetch_next() const {
    if (!next_.is_there) return;
    const int lane = threadIdx.x % 32;
    const Element* const key =
        cache_ + (in_trees ? next_.lane_key : next_.keys * kPagePositions + static_cast<uint32_t>(lane)) *
                     size_t{kHeadDim};
    prefetch_to_l2(key);
    prefetch_to_l2(key + to_value_);
  }
  __device__ void load_next_keys() {
    if (next_.is_there) page_.load_keys(keys_from(next_));
  }
  __device__ void load_next_values() {
    if (next_.is_there) page_.load_values(keys_from(next_), to_value_);
  }
  __device__ void advance() { here_ = next_; }

  // If the page contains the row's own position: inserts its key and value, and writes them to the cache.
  __device__ void add_own(int chunk, const RowQkv<format>& own) {
    if (share_.seen.last / kPagePositions != page_of(chunk)) return;
    const int position = share_.seen.last % kPagePositions, lane = threadIdx.x % 32;
    page_.replace(position, own.key, own.value);
    // Each lane copies one word of the key and one of the value.
    if (lane >= static_cast<int>(sizeof(own.key) / sizeof(uint32_t))) return;
    Element* const keys = cache_ + size_t{1} * here_.keys * kPageElements + position * kHeadDim;
    const auto put = [lane](Element* to, const Element* from) {
      reinterpret_cast<uint32_t*>(to)[lane] = reinterpret_cast<const uint32_t*>(from)[lane];
    };
    put(keys, own.key);
    put(keys + to_value_, own.value);
  }
  // Returns the page's partial softmax; loads the next page's keys once this page's key registers are free.
  __device__ PageSums attend(int chunk, const RowQkv<format>& own) {
    uint32_t queries[4][2];
    own.load_queries(queries);
    return attend_page(page_, page_of(chunk) * kPagePositions, share_.seen, queries,
                       [&] { load_next_keys(); });
  }

 private:
  // A page's location. An index, not a pointer: with it the compiler knows that pages are in global memory.
  struct Place {
    bool is_there;      // false: the row has no such page
    uint32_t keys;      // first key: (page, head) blocks of kPageElements from the start of the cache
    uint32_t lane_key;  // in draft trees only: result of key_on_path()
  };

  // The number of the warp's page of a chunk, counted from the sequence's first page.
  __device__ int page_of(int chunk) const {
    const int warp = threadIdx.x / 32;
    return share_.first_page + chunk * kChunkPages + warp;
  }
  __device__ Place find(int chunk) const {
    const int warp = threadIdx.x / 32;
    Place place{chunk >= 0 && chunk * kChunkPages + warp < share_.num_pages, 0, 0};
    if (!place.is_there) return place;
    const int page = page_of(chunk);
    place.keys =
        2 * page_id(args_.pages, args_.input, share_.row, page) * args_.num_kv_heads + share_.kv_head;
    if constexpr (in_trees) place.lane_key = key_on_path(page);
    return place;
  }

  // Where the key of position `lane` of the page is for a row of a draft tree, in units of kHeadDim elements
  // from the start of the layer's cache. Positions after the row's own are masked, so any slot will do.
  __device__ uint32_t key_on_path(int page) const {
    const RowPath path = args_.input.paths[share_.row_index];
    const int position = page * kPagePositions + static_cast<int>(threadIdx.x) % 32;
    const bool is_on_path = position >= path.first && position <= share_.row.position;
    const int slot =
        is_on_path ? static_cast<int>(args_.input.page_ids[path.slots + static_cast<uint32_t>(position)])
                   : position;
    const uint32_t id = page_id(args_.pages, args_.input, share_.row, slot / kPagePositions);
    return (2 * id * static_cast<uint32_t>(args_.num_kv_heads) + static_cast<uint32_t>(share_.kv_head)) *
               kPagePositions +
           static_cast<uint32_t>(slot % kPagePositions);
  }
  __device__ auto keys_from(const Place& place) const {
    return [cache = cache_, place](int position, size_t element) {
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
  }

  const AttendArgs& args_;
  const RowShare& share_;
  const size_t to_value_;  // distance from a key to its value, in elements
  Element* const cache_;
  Place here_, next_{};
  PageRegisters<format> page_;
};

}  // namespace nibble::cuda
