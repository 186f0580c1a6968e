// Sums of many rows, each of which has an owner (protocol.h):
//
//   every rank   sends its term of a row (what this rank adds to the residual stream x: a vector of H floats,
//                the sum of the rank's parts of the row) to the row's owner, then sets the row's flag there;
//   the owner    waits for the flags, computes x + all terms in the order of ranks, stores the new x in its
//                own memory, sends norm(x) (without a norm: x) to all ranks, and sets a flag on each rank;
//   every rank   waits for the flags of all rows.
//
// Traffic for R rows of H numbers, with figures for 2,048 rows of 2,880 numbers and N = 2 ranks. Over the
// link, each rank sends terms of (N - 1) / N R H floats (11.8 MB) and norms of the same number of bfloat16
// elements (5.9 MB): 46 us at 387 GB/s. After the experts, the memory of a rank moves 153 MB, 49 us at 3.1
// TB/s: the rank reads 4 parts per row (94 MB), stores and reads received terms (24 MB), reads and stores x
// of its own rows (24 MB), and stores the norms of all rows (12 MB). After attention, a row has one part (24
// MB instead of 94 MB), so the sum is 83 MB.
//
// Half of the CTAs send and wait while the other half add up. All CTAs of a rank must be resident, because
// they poll. Flags are per row, so ranks may launch different numbers of CTAs.
#include "backend/cuda/chip/device.h"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/ranks/links.cuh"
#include "core/errors/check.h"

namespace nibble::cuda {
namespace {

constexpr int kDealtWarps{16}, kOfEach{1};  // per SM, one CTA sends and one adds up
constexpr int kPartsAtOnce{2};              // for add_parts(); 3 would need too many registers
// Number of rows that a CTA sends per fence. A fence takes 2 us. With one fence per row, 132 CTAs could send
// at most 430 GB/s, hardly more than the 387 GB/s that the link carries.
constexpr int kSentAtOnce{2};
using DealtRow = RowOfCta<kDealtWarps>;

struct CtaOf {
  int index, count;
};

// Returns whether rank number `thread` exists and is not this rank. Thread n serves rank n.
__device__ bool is_peer(const Links& links, int thread) {
  return thread < links.num_ranks && thread != links.rank;
}

__device__ void send_terms(const SumArgs& args, uint32_t tag, const CtaOf& cta) {
  const Links& links = args.links;
  const int hidden = links.hidden, most = most_owned(args.num_rows, links.num_ranks) * (links.num_ranks - 1);
  for (int first = cta.index; first < most; first += kSentAtOnce * cta.count) {
    uint32_t* flag = nullptr;  // in thread i: the flag of the i-th row that is sent here; null: no such row
    for (int i = 0; i < kSentAtOnce; ++i) {
      const int n = first + i * cta.count, row = others_row(n, links.rank, links.num_ranks);
      if (n >= most || row >= args.num_rows) continue;
      const Inbox& inbox = links.inboxes[owner_of(row, links.num_ranks)];
      const size_t place = place_of(1, 0, links.rank, links.own_room) + index_of(row, links.num_ranks);
      float4 own[DealtRow::kFours];
      DealtRow::add_parts<kPartsAtOnce>(args, args.first_row + row, own);
      DealtRow::store(own, hidden, inbox.terms + place * hidden);
      if (static_cast<int>(threadIdx.x) == i) flag = inbox.flags + place;
    }
    __syncthreads();
    if (flag) store_release_system(flag, tag);
  }
}

// Waits until owners have returned the rows whose terms this CTA has sent in send_terms().
__device__ void wait_for_rows(const SumArgs& args, uint32_t tag, const CtaOf& cta) {
  const Links& links = args.links;
  const int most = most_owned(args.num_rows, links.num_ranks) * (links.num_ranks - 1);
  for (int n = cta.index + static_cast<int>(threadIdx.x) * cta.count; n < most;
       n += DealtRow::kThreads * cta.count)
    if (const int row = others_row(n, links.rank, links.num_ranks); row < args.num_rows)
      wait_for_flag(links, links.inboxes[links.rank].returned + row, tag);
}

__device__ void add_up(const SumArgs& args, uint32_t tag, int row, float4 (&sum)[DealtRow::kFours]) {
  const Links& links = args.links;
  const Inbox& inbox = links.inboxes[links.rank];
  const int hidden = links.hidden, of_step = args.first_row + row, thread = static_cast<int>(threadIdx.x);
  const auto place_from = [&](int r) {
    return place_of(1, 0, r, links.own_room) + index_of(row, links.num_ranks);
  };
  float4 own[DealtRow::kFours], more[DealtRow::kFours];
  DealtRow::add_parts<kPartsAtOnce>(args, of_step, own);
  DealtRow::load(args.terms.x + size_t{1} * of_step * hidden, hidden, sum);
  if (is_peer(links, thread)) wait_for_flag(links, inbox.flags + place_from(thread), tag);
  __syncthreads();
#pragma unroll 1
  for (int r = 0; r < links.num_ranks; ++r) {
    if (r == links.rank) {
      DealtRow::add(own, hidden, sum);
    } else {
      DealtRow::load(inbox.terms + place_from(r) * hidden, hidden, more);
      DealtRow::add(more, hidden, sum);
    }
  }
}

// Adds up the rows that this rank owns, and sends to all ranks each row's norm or, without `has_norm`, the
// row's sum.
template <bool has_norm>
__device__ void add_up_rows(const SumArgs& args, uint32_t tag, const CtaOf& cta) {
  __shared__ __align__(16) SharedNorm normed;
  const Links& links = args.links;
  const int hidden = links.hidden, thread = static_cast<int>(threadIdx.x);
  for (int n = cta.index;; n += cta.count) {
    const int row = n * links.num_ranks + links.rank, of_step = args.first_row + row;
    if (row >= args.num_rows) return;
    const size_t at = size_t{1} * of_step * hidden;
    float4 sum[DealtRow::kFours]{};
    add_up(args, tag, row, sum);
    if constexpr (has_norm) {
      DealtRow::store(sum, hidden, args.terms.out + at);
      // The weights are loaded again for each row; this is fast, because after the CTA's first row they are
      // in L1.
      const NormWeights<kDealtWarps, 1> norm_weights(args.terms.norm.weights, hidden);
      DealtRow::normalise(args, norm_weights, of_step, normed);
      DealtRow::for_pieces(
          normed, of_step, hidden, args.terms.norm.image_rows, [&](size_t element, uint4 piece) {
#pragma unroll 1
            for (int distance = 0; distance < links.num_ranks; ++distance)
              *reinterpret_cast<uint4*>(links.outputs[peer_of(links.rank, distance, links.num_ranks)].normed +
                                        element) = piece;
          });
    } else {
      for (int distance = 0; distance < links.num_ranks; ++distance)
        DealtRow::store(sum, hidden, links.outputs[peer_of(links.rank, distance, links.num_ranks)].x + at);
    }
    __syncthreads();
    // The last warp sets the flags, because it holds the fewest elements of a row. While its fence waits, the
    // other warps load the next row.
    const int to = thread - (DealtRow::kThreads - 32);
    if (to >= 0 && is_peer(links, to)) store_release_system(links.inboxes[to].returned + row, tag);
  }
}

// Ranks that share a GPU run one after another in one stream: kSend for all ranks, then kWait for all ranks.
// When the last kWait has ended, all rows have returned, so only kSendAndWait polls for returned rows.
template <Turn turn, bool has_norm>
__global__ void __launch_bounds__(DealtRow::kThreads, 2 * kOfEach)
    sum_dealt_kernel(const __grid_constant__ SumArgs args, int num_senders, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const int cta = static_cast<int>(blockIdx.x);
  wait_for_predecessor(timestamps);
  let_successor_start();
  const uint32_t tag = tag_in_step(args.links, args.number);
  if (cta < num_senders) {
    const CtaOf sender{cta, num_senders};
    send_terms(args, tag, sender);
    if constexpr (turn == Turn::kSendAndWait) wait_for_rows(args, tag, sender);
  } else {
    add_up_rows<has_norm>(args, tag, {cta - num_senders, static_cast<int>(gridDim.x) - num_senders});
  }
}

template <typename F>
void with_kernel(Turn turn, bool has_norm, const F& f) {
  with_turn(turn, [&](auto t) {
    constexpr Turn kTurn = decltype(t)::value;
    has_norm ? f(sum_dealt_kernel<kTurn, true>) : f(sum_dealt_kernel<kTurn, false>);
  });
}

}  // namespace

void sum_dealt(const LaunchContext& gpu, const SumArgs& args, Turn turn) {
  const Links& links = args.links;
  const SumOutputs& own = links.outputs[links.rank];
  NIBBLE_CHECK(args.terms.x == own.x && args.terms.out == own.x,
               "sum_dealt() works in place: x and out must be this rank's x");
  const int most = most_owned(args.num_rows, links.num_ranks),
            room = kOfEach * device_caps().num_multiprocessors,
            num_senders = turn == Turn::kWait ? 0 : std::min(room, most * (links.num_ranks - 1)),
            num_adders = turn == Turn::kSend ? 0 : std::min(room, most);
  with_kernel(turn, args.terms.norm.weights != nullptr, [&](auto* kernel) {
    launch(gpu, label_of(args), kernel,
           {dim3(static_cast<unsigned>(num_senders + num_adders)), DealtRow::kThreads}, args, num_senders);
  });
}

void prepare_dealt_sums() {
  for (const Turn turn : {Turn::kSendAndWait, Turn::kSend, Turn::kWait})
    for (const bool has_norm : {false, true})
      with_kernel(turn, has_norm, [](auto* kernel) { prefer_shared_memory(kernel); });
}

}  // namespace nibble::cuda
