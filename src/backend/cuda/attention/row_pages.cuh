// The pages that a warp of attend_rows() (rows.cu) handles: one page of each chunk of its CTA. The warp
// finds and loads its page, multiplies the queries with the page's keys, and stores exponentials and values
// in shared memory. Then each warp computes 8 columns of the output from all pages of the chunk.
//
// There are two products, both by mma.m16n8k16; in a lane, g = lane / 4 and t = lane % 4. The first product
// multiplies queries and keys (heads x positions). A lane's B registers for two mma.m16n8k16 are 8 adjacent
// elements of the key of position g; the lane gets the scores of head g at positions 2 t and 2 t + 1. The
// second product multiplies exponentials and values (heads x elements of a head), summed over positions. The
// A registers of the second product have the layout of the first product's sums, so a lane reads the
// exponentials that the same lane of another warp stored. Values are stored in swizzled 16-byte pieces, so
// that neither the stores nor the transposing loads of 8 columns have bank conflicts.
#pragma once

#include "backend/cuda/attention/args.h"
#include "backend/cuda/attention/page.cuh"
#include "backend/cuda/attention/partials.cuh"
#include "backend/cuda/ptx/copy.cuh"
#include "backend/cuda/ptx/load.cuh"
#include "backend/cuda/ptx/mma.cuh"

namespace nibble::cuda {

struct SeenPositions {
  int first, last;
};

// The work of a CTA: one row, one key/value head, and the chunks first_chunk, first_chunk - chunk_step, and
// so on down to 0.
struct RowShare {
  int kv_head;
  int launch_row, row_index;  // index of the row, in the launch (launch_row) and in the step (row_index)
  RowInput row;
  SeenPositions seen;
  int first_page, num_pages;
  int first_chunk, chunk_step, num_chunks;  // first_chunk is negative if the CTA has no chunk
};

// Computes c += A B, where registers a0 and a2 hold the upper 8 rows of A, and the lower 8 rows are zero.
__device__ inline void mma_upper(float (&c)[4], uint32_t a0, uint32_t a2, uint32_t b0, uint32_t b1) {
  mma_bf16(c, {a0, 0, a2, 0}, b0, b1);
}

// A row's q, k and v in shared memory: rotated queries and, if the CTA writes the KV cache, key and value in
// the format of the cache.
template <KvFormat format>
struct RowQkv {
  using Element = typename KvCodec<format>::Element;
  alignas(16) __nv_bfloat16 queries[kMaxGroupHeads][kHeadDim];
  alignas(16) Element key[kHeadDim], value[kHeadDim];

  // Loads the lane's registers a0 and a2 of the A operands of four mma.m16n8k16, each over 16 of a head's 64
  // elements. Row g of A is head g; rows 8 to 15 are zero (mma_upper()).
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

// The keys and values of one page in a lane's registers. In the comments, g = lane / 4 and t = lane % 4.
template <KvFormat format>
struct PageRegisters {
  using Element = typename KvCodec<format>::Element;
  using Eight = typename KvCodec<format>::Eight;
  Eight keys[4][2];    // keys[n][half]: 8 elements from 32 * half + 8 t on, of the key at position 8 n + g
  Eight values[2][4];  // values[half][i]: elements 8 g to 8 g + 7 of the value at position_of(half, i)

  // Returns the distance in positions from the lane's first value to values[half][i].
  static constexpr int values_apart(int half, int i) { return 16 * half + 8 * (i / 2) + i % 2; }
  static __device__ int position_of(int half, int i) {
    return values_apart(half, i) + 2 * (static_cast<int>(threadIdx.x) % 4);
  }
  // load_keys() and load_values() call keys_from(position, element) with the place of the lane's first load:
  // a position in the page, and the number of elements from the start of this position's key to the load.
  // keys_from() returns a function f(positions, elements), which returns the address that is `positions`
  // positions and `elements` elements after the first load. The arguments of f are compile-time constants, so
  // the lane computes only one address for all its loads.
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
  // `to_value`: distance in elements from a key to its value.
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
  // Inserts the current row's own key and value at `position` of the page: they were not yet in the cache
  // when the page was loaded.
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

// A chunk's exponentials and values in shared memory, where the warps of a CTA exchange them. The first
// index of each array is the page's number in the chunk.
struct ChunkPages {
  // exponentials[page][lane]: four pairs; pair n is for head g at positions 8 n + 2 t and 8 n + 2 t + 1
  // (g = lane / 4, t = lane % 4)
  uint4 exponentials[kAttendWarps][32];
  // values[page][position][p ^ (position % 8)]: elements 8 p to 8 p + 7 of the position's value
  uint4 values[kAttendWarps][kPagePositions][kHeadDim / 8];
  float references[kAttendWarps][kMaxGroupHeads];
};

// Returns the warp's part of a chunk's partial softmax. `num_pages`: pages of the chunk. `reference`:
// head_reference() of head g = lane / 4. `is_scaled`: whether any head has a softmax reference of its own on
// any page of the chunk.
__device__ inline ChunkSums multiply_values(const ChunkPages& pages, int num_pages, float reference,
                                            bool is_scaled) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  float factors[2];  // powers of two by which to multiply the exponentials of pages 2 t, 2 t + 1
  if (is_scaled) {
    const auto reference_at = [&](int page) {
      return page < num_pages ? pages.references[page][g] : reference;
    };
    const float references[2]{reference_at(2 * t), reference_at(2 * t + 1)};
    reference = reduce_neighbours<4>(fmaxf(references[0], references[1]), Maximum());
#pragma unroll
    for (int i = 0; i < 2; ++i) factors[i] = power_of_two(references[i] - reference);
  }
  const uint32_t first_value = shared_address(&pages.values[0][lane][warp ^ lane % 8]);
  struct Operands {
    uint4 pairs;
    uint32_t values[4];
  };
  const auto load = [&](int page) {
    Operands operands;
    operands.pairs = pages.exponentials[page][lane];
    load_transposed(operands.values, first_value + static_cast<uint32_t>(page * sizeof pages.values[0]));
    return operands;
  };
  // The operands of the next page are loaded before the current page is multiplied. If the chunk has no next
  // page, the loaded operands are not used.
  Operands next = load(0);
  float out[4]{}, total[4]{};
#pragma unroll
  for (int page = 0; page < kAttendWarps; ++page) {
    const Operands here = next;
    if (page + 1 < kAttendWarps) next = load(page + 1);
    if (page >= num_pages) break;
    Exponentials exponentials{{here.pairs.x, 0, here.pairs.y, 0}, {here.pairs.z, 0, here.pairs.w, 0}};
    if (is_scaled) scale<0>(exponentials, __shfl_sync(~0u, factors[page % 2], lane / 4 * 4 + page / 2));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto& a = exponentials[half];
      mma_upper(out, a[0], a[2], here.values[2 * half], here.values[2 * half + 1]);
      mma_upper(total, a[0], a[2], kOnes, kOnes);
    }
  }
  return {reference, total[0], {out[0], out[1]}};
}

// Finds, loads and multiplies a warp's pages. Holds the keys and values of the warp's page of the current
// chunk in registers, and knows where the warp's page of the CTA's next chunk is in the cache.
template <KvFormat format, bool in_trees>
class WarpPages {
  using Element = typename KvCodec<format>::Element;

 public:
  // Finds this warp's page in the CTA's first chunk.
  __device__ WarpPages(const AttendArgs& args, const RowShare& share)
      : args_(args),
        share_(share),
        to_value_(size_t{1} * args.num_kv_heads * kPageElements),
        cache_(static_cast<Element*>(args.pages.data)),
        here_(find(share.first_chunk)) {}

  __device__ bool has_page() const { return here_.is_there; }
  __device__ void load() {
    if (!here_.is_there) return;
    page_.load_keys(keys_from(here_));
    page_.load_values(keys_from(here_), to_value_);
  }
  // Finds the warp's page of the CTA's next chunk. `chunk`: number of that chunk; negative if the CTA has no
  // next chunk.
  __device__ void find_next(int chunk) { next_ = find(chunk); }
  // Prefetches the next page to L2, because the registers still hold the current page. Each lane prefetches
  // the key and value of one position.
  __device__ void prefetch_next() const {
    if (!next_.is_there) return;
    const int lane = threadIdx.x % 32;
    const Element* const key =
        cache_ + (in_trees ? next_.lane_key : next_.keys * kPagePositions + static_cast<uint32_t>(lane)) *
                     size_t{kHeadDim};
    prefetch_to_l2(key);
    prefetch_to_l2(key + to_value_);
  }
  // load_next_keys() and load_next_values() load the next page into the registers of the current page.
  __device__ void load_next_keys() {
    if (next_.is_there) page_.load_keys(keys_from(next_));
  }
  __device__ void load_next_values() {
    if (next_.is_there) page_.load_values(keys_from(next_), to_value_);
  }
  __device__ void advance() { here_ = next_; }

  // If the page contains the row's own position, inserts the row's key and value into the registers, and
  // stores key and value in the cache.
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
  // Computes the exponentials of the warp's page, and stores them with the page's values in `pages`. Returns
  // whether any head has its own softmax reference on this page. `reference`: head_reference() of head g =
  // lane / 4. The row must see at least one position of the page; the scores of positions that it does not
  // see become -inf. Loads the next page's keys as soon as the key registers are free.
  __device__ bool attend(int chunk, const RowQkv<format>& own, float reference, ChunkPages& pages) {
    // Registers a0 and a2 of the A operands of four mma.m16n8k16, each over 16 of a head's 64 elements. Row g
    // of A is head g. Registers a1 and a3 (rows 8 to 15) are zero (mma_upper()).
    uint32_t queries[4][2];
    own.load_queries(queries);
    const int first = page_of(chunk) * kPagePositions;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const bool has_end = first + kPagePositions - 1 > share_.seen.last;
    float scores[4][4]{};  // scores[n][0], [n][1]: scores of head g at positions 8 n + 2 t, 8 n + 2 t + 1
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 k = KvCodec<format>::to_bf16(page_.keys[n][half]);
        mma_upper(scores[n], queries[2 * half][0], queries[2 * half][1], k.x, k.y);
        mma_upper(scores[n], queries[2 * half + 1][0], queries[2 * half + 1][1], k.z, k.w);
      }
    load_next_keys();
    if (has_end || first < share_.seen.first) {
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int c = 0; c < 2; ++c)
          if (const int position = first + 8 * n + 2 * t + c;
              position < share_.seen.first || position > share_.seen.last)
            scores[n][c] = -INFINITY;
    }
    if (has_end) {  // Slots of later positions are not written yet, and may hold NaN: 0 * NaN is NaN.
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (first + PageRegisters<format>::position_of(half, i) > share_.seen.last)
            page_.values[half][i] = {};
    }
    Exponentials exponentials{};
    take_exponentials<0>(scores, reference, exponentials);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int position = PageRegisters<format>::position_of(half, i);
        pages.values[warp][position][g ^ position % 8] = KvCodec<format>::to_bf16(page_.values[half][i]);
      }
    const bool has_own = __ballot_sync(~0u, (bits_of_row<0>(exponentials) & kTooLarge) != 0) != 0;
    if (has_own) reference = own_reference<0>(scores, reference, exponentials);
    pages.exponentials[warp][lane] =
        make_uint4(exponentials[0][0], exponentials[0][2], exponentials[1][0], exponentials[1][2]);
    if (t == 0) pages.references[warp][g] = reference;
    return has_own;
  }

 private:
  // Indices that locate a page in the cache. They are not pointers: with a pointer, the compiler would not
  // know that the page is in global memory.
  struct Place {
    bool is_there;      // whether the row has this page
    uint32_t keys;      // index of the head's keys of this page in the cache, in units of kPageElements
    uint32_t lane_key;  // in_trees only: index of this lane's key, see key_on_path()
  };

  // Returns the number of the warp's page in `chunk`, counted from the sequence's first page.
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

  // Returns where a row of a draft tree finds the key of position `lane` of the page: an offset from the
  // start of the layer's cache, in units of kHeadDim elements. For positions after the row's own, the result
  // does not matter: attend() masks their scores.
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
  // Returns keys_from(position, element) for PageRegisters::load_keys() and load_values().
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
  const size_t to_value_;  // distance in elements from a key to its value
  Element* const cache_;
  Place here_, next_{};
  PageRegisters<format> page_;
};

}  // namespace nibble::cuda
