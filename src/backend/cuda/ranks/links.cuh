// Shared code of the all-reduce kernels: timeouts of polling, loads of a rank's own parts, stores of norms.
#pragma once

#include <type_traits>

#include "backend/cuda/layout/activations.h"
#include "backend/cuda/pipeline/inputs.cuh"
#include "backend/cuda/pipeline/norm_input.h"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/ptx/launch.cuh"
#include "backend/cuda/ptx/system.cuh"
#include "backend/cuda/ranks/sum.h"

namespace nibble::cuda {

class Patience {
 public:
  __device__ explicit Patience(const Links& links) : links_(links) {}
  // Returns whether this thread has polled for too long, or any thread of any rank has.
  __device__ bool is_over() {
    constexpr unsigned kPolls{1024};  // polls per test of the flag, which is in host memory and slow to read
    if (++polls_ % kPolls != 0) return false;
    if (since_ == 0) since_ = now_ns();
    if (*static_cast<const volatile uint32_t*>(links_.failure) != 0) return true;
    if (now_ns() - since_ < links_.patience_ns) return false;
    *static_cast<volatile uint32_t*>(links_.failure) = 1;
    return true;
  }

 private:
  const Links& links_;
  unsigned polls_{0};
  unsigned long long since_{0};
};

__device__ inline uint32_t tag_in_step(const Links& links, int number) {
  return tag_of(__ldcg(links.step), links.tags_per_step, number);
}

__device__ inline void wait_for_flag(const Links& links, const uint32_t* flag, uint32_t tag) {
  Patience patience(links);
  while (load_acquire_system(flag) != tag && !patience.is_over()) {
  }
}

// Returns a mask: bit p is set if this rank has part p of the row. Missing parts count as zeros. A part can
// be loaded only after its weight has arrived. All weights are loaded at once, so the parts wait only once.
__device__ inline unsigned parts_here(const SumTerms& terms, int row) {
  if (!terms.weights) return ~0u;
  float weights[kMaxExpertsPerToken];
  unsigned here = 0;
#pragma unroll
  for (int p = 0; p < kMaxExpertsPerToken; ++p)
    weights[p] = p < terms.num_parts ? __ldcg(terms.weights + row * terms.num_parts + p) : 0;
#pragma unroll
  for (int p = 0; p < kMaxExpertsPerToken; ++p) here |= (weights[p] != 0 ? 1u : 0u) << p;
  return here;
}

// Returns a row's index in SumTerms::parts; -1 if this rank has no parts of the row, and adds 0.
__device__ inline int part_row(const SumTerms& terms, int row) {
  return terms.part_rows ? __ldcg(terms.part_rows + row) : row;
}

__device__ inline void add_to(float4& sum, float4 more) {
  sum.x += more.x;
  sum.y += more.y;
  sum.z += more.z;
  sum.w += more.w;
}

// Returns which column of a matrix is stored at index `place` of a row in an image (activations in wgmma's
// layout), before pieces are swizzled. This is the inverse of lane_order().
constexpr int column_at(int place) {
  const int m = place / 16 % 2, h = place / 8 % 2, t = place / 2 % 4;
  return place / 32 * 32 + 8 * t + 4 * m + 2 * h + place % 2;
}
constexpr bool column_at_reverses_lane_order() {
  for (int col = 0; col < kTileCols; ++col)
    if (column_at(lane_order(col)) != col) return false;
  return true;
}
static_assert(column_at_reverses_lane_order());

using SharedNorm = __nv_bfloat16[kMaxHidden];

// A CTA that processes one row at a time. Each thread holds kFours float4s of the row.
template <int warps>
struct RowOfCta {
  static constexpr int kThreads{32 * warps}, kFours{kMaxHidden / 4 / kThreads};

  // Calls f(n, col) for each float4 n of the calling thread; col is the float4's first column.
  template <typename F>
  static __device__ void for_fours(int hidden, const F& f) {
#pragma unroll
    for (int n = 0; n < kFours; ++n)
      if (const int col = 4 * (n * kThreads + static_cast<int>(threadIdx.x)); col < hidden) f(n, col);
  }
  static __device__ void load(const float* row, int hidden, float4 (&to)[kFours]) {
    for_fours(hidden, [&](int n, int col) { to[n] = __ldcg(reinterpret_cast<const float4*>(row + col)); });
  }
  static __device__ void add(const float4 (&more)[kFours], int hidden, float4 (&to)[kFours]) {
    for_fours(hidden, [&](int n, int) { add_to(to[n], more[n]); });
  }
  // Sets `sum` to the sum of this rank's parts of a row, added in order. Loads part 0 first, then `at_once`
  // parts at a time.
  template <int at_once>
  static __device__ void add_parts(const SumArgs& args, int row, float4 (&sum)[kFours]) {
    const SumTerms& terms = args.terms;
    const int hidden = args.links.hidden, from = part_row(terms, row);
    const unsigned here = from < 0 ? 0 : parts_here(terms, row);
    const auto load_part = [&](int part, float4(&to)[kFours]) {
      if (here >> part & 1)
        load(terms.parts + from * terms.row_stride + part * terms.part_stride, hidden, to);
      else
        for_fours(hidden, [&](int n, int) { to[n] = {}; });
    };
    load_part(0, sum);
#pragma unroll 1
    for (int first = 1; first < terms.num_parts; first += at_once) {
      float4 parts[at_once][kFours];
#pragma unroll
      for (int p = 0; p < at_once; ++p)
        if (first + p < terms.num_parts) load_part(first + p, parts[p]);
#pragma unroll
      for (int p = 0; p < at_once; ++p)
        if (first + p < terms.num_parts) add(parts[p], hidden, sum);
    }
  }
  static __device__ void store(const float4 (&from)[kFours], int hidden, float* row) {
    for_fours(hidden, [&](int n, int col) { *reinterpret_cast<float4*>(row + col) = from[n]; });
  }

  // Stores the norm of a row of terms.out in `to`, and synchronizes the CTA. Call it after all threads have
  // stored their elements of the row: the elements are loaded again in the order of rms_norm(), so that the
  // norm has the bits of rms_norm().
  static __device__ void normalise(const SumArgs& args, const NormWeights<warps, 1>& weights, int row,
                                   SharedNorm& to) {
    NormInput norm{};
    norm.residual.x = args.terms.out;
    norm.residual.hidden = args.links.hidden;
    norm.eps = args.terms.norm.eps;
    weights.load(
        norm, [&](int) { return row; }, {to, 0, 1}, Ignore{});
  }

  // Calls f(element, piece) for each 16-byte piece of a row's norm. `element`: index of the piece's first
  // element in [T, H] or in an image.
  template <typename F>
  static __device__ void for_pieces(const SharedNorm& normed, int row, int hidden, int image_rows,
                                    const F& f) {
    const int num_pieces = (image_rows ? padded_cols(hidden) : hidden) / 8;
    for (int piece = static_cast<int>(threadIdx.x); piece < num_pieces; piece += kThreads) {
      const int col = 8 * piece, cell_piece = piece % kCellPieces;
      if (image_rows == 0) {
        f(size_t{1} * row * hidden + col, *reinterpret_cast<const uint4*>(normed + col));
        continue;
      }
      uint32_t pairs[4];
#pragma unroll
      for (int pair = 0; pair < 4; ++pair)
        pairs[pair] = *reinterpret_cast<const uint32_t*>(normed + column_at(col + 2 * pair));
      f(cell_of(row, col / kTileCols, image_rows) / 2 + (cell_piece ^ row % kRowsOfSwizzle) * 8,
        make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]));
    }
  }
};

template <typename F>
void with_turn(Turn turn, const F& f) {
  switch (turn) {
    case Turn::kSendAndWait:
      return f(std::integral_constant<Turn, Turn::kSendAndWait>());
    case Turn::kSend:
      return f(std::integral_constant<Turn, Turn::kSend>());
    case Turn::kWait:
      return f(std::integral_constant<Turn, Turn::kWait>());
  }
}

inline Label label_of(const SumArgs& args) {
  return {args.operation, args.terms.norm.weights ? "sum and norm" : "sum"};
}

}  // namespace nibble::cuda
