// All-reduce of few rows by tagged words, and meetings (barriers).
#include "backend/cuda/chip/device.h"
#include "backend/cuda/layout/divisor.h"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/ranks/links.cuh"
#include "backend/cuda/route/args.h"
#include "core/errors/check.h"

namespace nibble::cuda {
namespace {

constexpr int kFewThreads{128}, kMeetThreads{256};
// Warps per CTA and CTAs per SM of sum_words_kernel. All CTAs poll, so all of them must be resident.
constexpr int kWarps{16}, kResidents{1};
constexpr int kPartsAtOnce{3};  // for add_parts(); gpt-oss has up to 1 + 3 parts per row (chosen experts)
using WordRow = RowOfCta<kWarps>;

__device__ TwoWords two_words(float first, float second, uint32_t tag) {
  return {tagged(__float_as_uint(first), tag), tagged(__float_as_uint(second), tag)};
}
__device__ bool have_tag(const TwoWords& words, uint32_t tag) {
  return has_tag(words.first, tag) && has_tag(words.second, tag);
}
__device__ float2 two_floats(const TwoWords& words) {
  return {__uint_as_float(untagged(words.first)), __uint_as_float(untagged(words.second))};
}
// Returns the address of element `at` among the words that rank of_rank sends to rank in_inbox.
__device__ uint64_t* words_of(const SumArgs& args, int of_rank, int in_inbox, size_t at) {
  const Links& links = args.links;
  const int room = tagged_rows(links.num_ranks) * links.hidden;
  return links.inboxes[in_inbox].words + place_of(links.num_ranks, args.slot, of_rank, room) + at;
}
template <typename F>
__device__ void for_peers(const Links& links, const F& f) {
#pragma unroll 1
  for (int distance = 1; distance < links.num_ranks; ++distance)
    f(peer_of(links.rank, distance, links.num_ranks));
}

__device__ void add_to(float2& sum, float2 more) {
  sum.x += more.x;
  sum.y += more.y;
}
// Returns the sum of this rank's parts of elements `col` and `col + 1` of a row: loads all parts, then adds
// them in order.
__device__ float2 own_pair(const SumTerms& terms, int row, int col) {
  const int part = part_row(terms, row);
  const float* from = terms.parts + max(part, 0) * terms.row_stride + col;
  const unsigned here = part < 0 ? 0 : parts_here(terms, row);
  float2 loaded[kMaxExpertsPerToken];
#pragma unroll
  for (int p = 0; p < kMaxExpertsPerToken; ++p)
    if (p < terms.num_parts)
      loaded[p] =
          here >> p & 1 ? __ldcg(reinterpret_cast<const float2*>(from + p * terms.part_stride)) : float2{};
#pragma unroll
  for (int p = 1; p < kMaxExpertsPerToken; ++p)
    if (p < terms.num_parts) add_to(loaded[0], loaded[p]);
  return loaded[0];
}

// Sums one or two rows, without a norm: the kernels that read the sums compute the norm. Each thread adds up
// two adjacent elements.
template <Turn turn>
__global__ void __launch_bounds__(kFewThreads)
    sum_pairs_kernel(const __grid_constant__ SumArgs args, Divisor by_pairs, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const Links& links = args.links;
  const unsigned i = blockIdx.x * kFewThreads + threadIdx.x;
  const int row = static_cast<int>(by_pairs.quotient(i)), col = 2 * static_cast<int>(by_pairs.remainder(i));
  wait_for_predecessor(timestamps);
  let_successor_start();
  if (row >= args.num_rows) return;
  const uint32_t tag = tag_in_step(links, args.number);
  const size_t sent_at = size_t{1} * row * links.hidden + col,
               at = size_t{1} * args.first_row * links.hidden + sent_at;
  float2 sum = __ldcg(reinterpret_cast<const float2*>(args.terms.x + at));
  const float2 own = own_pair(args.terms, args.first_row + row, col);
  if constexpr (turn != Turn::kWait) {
    const TwoWords words = two_words(own.x, own.y, tag);
    for_peers(links, [&](int to) { store_relaxed_system(words_of(args, links.rank, to, sent_at), words); });
  }
  if constexpr (turn != Turn::kSend) {
    Patience patience(links);
    for (int r = 0; r < links.num_ranks; ++r) {
      if (r == links.rank) {
        add_to(sum, own);
        continue;
      }
      const uint64_t* from = words_of(args, r, links.rank, sent_at);
      TwoWords words = load_relaxed_system(from);
      while (!have_tag(words, tag) && !patience.is_over()) words = load_relaxed_system(from);
      add_to(sum, two_floats(words));
    }
    *reinterpret_cast<float2*>(args.terms.out + at) = sum;
  }
}

// Waits for this thread's float4s of a row from another rank. Loads all words before it tests any tag.
__device__ void wait_for_row(const uint64_t* from, int hidden, uint32_t tag, Patience& patience,
                             float4 (&to)[WordRow::kFours]) {
  bool have_arrived = false;
  while (!have_arrived) {
    TwoWords words[WordRow::kFours][2];
    WordRow::for_fours(hidden, [&](int n, int col) {
      words[n][0] = load_relaxed_system(from + col);
      words[n][1] = load_relaxed_system(from + col + 2);
    });
    have_arrived = true;
    WordRow::for_fours(hidden, [&](int n, int) {
      have_arrived = have_arrived && have_tag(words[n][0], tag) && have_tag(words[n][1], tag);
      const float2 low = two_floats(words[n][0]), high = two_floats(words[n][1]);
      to[n] = {low.x, low.y, high.x, high.y};
    });
    have_arrived = have_arrived || patience.is_over();
  }
}

// A CTA sends the terms of every gridDim.x-th row. Then it adds up each of these rows and computes its norm;
// for this the CTA loads this rank's parts again, while the other ranks' words arrive.
template <Turn turn>
__global__ void __launch_bounds__(WordRow::kThreads, kResidents)
    sum_words_kernel(const __grid_constant__ SumArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  __shared__ __align__(16) SharedNorm normed;
  const Links& links = args.links;
  const int hidden = links.hidden, first = static_cast<int>(blockIdx.x), step = static_cast<int>(gridDim.x);
  const NormWeights<kWarps, 1> norm_weights(args.terms.norm.weights, args.terms.norm.weights ? hidden : 0);
  wait_for_predecessor(timestamps);
  let_successor_start();
  const uint32_t tag = tag_in_step(links, args.number);
  if constexpr (turn != Turn::kWait)
    for (int row = first; row < args.num_rows; row += step) {
      float4 own[WordRow::kFours];
      WordRow::add_parts<kPartsAtOnce>(args, args.first_row + row, own);
      WordRow::for_fours(hidden, [&](int n, int col) {
        const TwoWords low = two_words(own[n].x, own[n].y, tag), high = two_words(own[n].z, own[n].w, tag);
        for_peers(links, [&](int to) {
          uint64_t* words = words_of(args, links.rank, to, size_t{1} * row * hidden + col);
          store_relaxed_system(words, low);
          store_relaxed_system(words + 2, high);
        });
      });
    }
  if constexpr (turn != Turn::kSend) {
    Patience patience(links);
    for (int row = first; row < args.num_rows; row += step) {
      const int of_step = args.first_row + row;
      const size_t at = size_t{1} * of_step * hidden;
      float4 sum[WordRow::kFours]{}, own[WordRow::kFours], more[WordRow::kFours];
      WordRow::load(args.terms.x + at, hidden, sum);
      WordRow::add_parts<kPartsAtOnce>(args, of_step, own);
      for (int r = 0; r < links.num_ranks; ++r) {
        if (r == links.rank) {
          WordRow::add(own, hidden, sum);
        } else {
          wait_for_row(words_of(args, r, links.rank, size_t{1} * row * hidden), hidden, tag, patience, more);
          WordRow::add(more, hidden, sum);
        }
      }
      WordRow::store(sum, hidden, args.terms.out + at);
      if (!args.terms.norm.weights) continue;
      WordRow::normalise(args, norm_weights, of_step, normed);
      WordRow::for_pieces(normed, of_step, hidden, args.terms.norm.image_rows,
                          [&](size_t element, uint4 piece) {
                            *reinterpret_cast<uint4*>(links.outputs[links.rank].normed + element) = piece;
                          });
    }
  }
}

template <Turn turn>
__global__ void __launch_bounds__(kMeetThreads)
    meet_kernel(const __grid_constant__ MeetArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const Links& links = args.links;
  const int thread = static_cast<int>(threadIdx.x);
  const bool is_peer = thread < links.num_ranks && thread != links.rank;
  wait_for_predecessor(timestamps);
  let_successor_start();
  const uint32_t tag = tag_in_step(links, args.number);
  if constexpr (turn != Turn::kWait) {
    for (int i = thread; i < args.num_words; i += kMeetThreads) {
      const uint32_t word = __ldcg(args.words + i);
      for (int r = 0; r < links.num_ranks; ++r)
        if (r != links.rank) args.to[r][i] = word;
    }
    __syncthreads();
    if (is_peer) store_release_system(links.inboxes[thread].arrivals + links.rank, tag);
  }
  if constexpr (turn != Turn::kSend) {
    if (is_peer) {
      // The loop also accepts a later tag, because the other rank may already have arrived at the next
      // barrier.
      Patience patience(links);
      const uint32_t* arrival = links.inboxes[links.rank].arrivals + thread;
      while (!has_reached(load_acquire_system(arrival), tag) && !patience.is_over()) {
      }
    }
    __syncthreads();
    if (thread > 0) return;
    if (StepOutput* const output = args.exchange.outputs[*links.step % 2]) output->met_ns = now_ns();
  }
}

}  // namespace

void sum_words(const LaunchContext& gpu, const SumArgs& args, Turn turn) {
  const int hidden = args.links.hidden;
  with_turn(turn, [&](auto t) {
    constexpr Turn kTurn = decltype(t)::value;
    if (args.num_rows <= kOwnNorms && !args.terms.norm.weights) {
      const auto ctas = static_cast<unsigned>((args.num_rows * (hidden / 2) + kFewThreads - 1) / kFewThreads);
      launch(gpu, label_of(args), sum_pairs_kernel<kTurn>, {dim3(ctas), kFewThreads}, args,
             Divisor(static_cast<unsigned>(hidden / 2)));
    } else {
      const int ctas = std::min(args.num_rows, kResidents * device_caps().num_multiprocessors);
      launch(gpu, label_of(args), sum_words_kernel<kTurn>,
             {dim3(static_cast<unsigned>(ctas)), WordRow::kThreads}, args);
    }
  });
}

void sum_over_ranks(const LaunchContext& gpu, const SumArgs& args, Turn turn) {
  NIBBLE_CHECK(
      args.num_rows <= kSumRows && args.terms.num_parts <= kMaxExpertsPerToken && args.links.hidden % 32 == 0,
      "{} parts of {} rows of {}", args.terms.num_parts, args.num_rows, args.links.hidden);
  if (args.num_rows <= tagged_rows(args.links.num_ranks)) return sum_words(gpu, args, turn);
  sum_dealt(gpu, args, turn);
}

void meet(const LaunchContext& gpu, const MeetArgs& args, Turn turn) {
  with_turn(turn, [&](auto t) {
    launch(gpu, {Operation::kSample, "meet"}, meet_kernel<decltype(t)::value>, {dim3(1), kMeetThreads}, args);
  });
}

void prepare_sums() {
  for (const Turn turn : {Turn::kSendAndWait, Turn::kSend, Turn::kWait})
    with_turn(turn, [&](auto t) {
      prefer_shared_memory(sum_pairs_kernel<decltype(t)::value>);
      prefer_shared_memory(sum_words_kernel<decltype(t)::value>);
      prefer_shared_memory(meet_kernel<decltype(t)::value>);
    });
  prepare_dealt_sums();
}

}  // namespace nibble::cuda
