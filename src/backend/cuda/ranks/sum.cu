#include "backend/cuda/ranks/sum.h"

#include "backend/cuda/kernels.h"
#include "backend/cuda/pdl.cuh"
#include "backend/cuda/ptx/registers.cuh"
#include "backend/cuda/ptx/system.cuh"
#include "core/check.h"

namespace nibble::cuda {
namespace {

constexpr int kFewThreads{128}, kManyThreads{512}, kMeetThreads{256};

// Counts how long a thread has polled.
class Patience {
 public:
  __device__ explicit Patience(const Links& links) : links_(links) {}
  // Says that the thread has polled for too long, or that another one has.
  __device__ bool is_over() {
    constexpr unsigned kPolls{1024};  // the failure is in memory of the host, and far away
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

__device__ uint32_t tag_in_step(const Links& links, int number) {
  return tag_of(__ldcg(links.step), links.tags_per_step, number);
}

__device__ void add_to(float2& sum, float2 more) {
  sum.x += more.x;
  sum.y += more.y;
}
__device__ void add_to(float4& sum, float4 more) {
  sum.x += more.x;
  sum.y += more.y;
  sum.z += more.z;
  sum.w += more.w;
}

// The rank's own parts of a few neighbours of a row, added up in their order. All loads are issued first.
template <typename Few>
__device__ Few own_sum(const SumArgs& args, size_t row, int col) {
  const float* from = args.parts + row * args.row_stride + col;
  Few loaded[kMaxExpertsPerToken];
#pragma unroll
  for (int p = 0; p < kMaxExpertsPerToken; ++p)
    if (p < args.num_parts) {
      const bool is_there = !args.weights || __ldcg(args.weights + row * args.num_parts + p) != 0;
      loaded[p] = is_there ? __ldcg(reinterpret_cast<const Few*>(from + p * args.part_stride)) : Few{};
    }
#pragma unroll
  for (int p = 1; p < kMaxExpertsPerToken; ++p)
    if (p < args.num_parts) add_to(loaded[0], loaded[p]);
  return loaded[0];
}

__device__ float2 wait_for_two(const uint64_t* from, uint32_t tag, Patience& patience) {
  TwoWords words = load_relaxed_system(from);
  while (!(has_tag(words.first, tag) && has_tag(words.second, tag)) && !patience.is_over())
    words = load_relaxed_system(from);
  return {__uint_as_float(untagged(words.first)), __uint_as_float(untagged(words.second))};
}

// A thread has two neighbours of a row.
template <Turn turn>
__global__ void __launch_bounds__(kFewThreads)
    sum_few_kernel(const __grid_constant__ SumArgs args, Divisor by_pairs, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const Links& links = args.links;
  const unsigned i = blockIdx.x * kFewThreads + threadIdx.x, row = by_pairs.quotient(i);
  const int col = 2 * static_cast<int>(by_pairs.remainder(i));
  wait_for_predecessor(timestamps);
  let_successor_start();
  if (row >= static_cast<unsigned>(args.num_rows)) return;
  const uint32_t tag = tag_in_step(links, args.number);
  const size_t at = size_t{row} * links.hidden + col;
  const int room = kTaggedRows * links.hidden;
  float2 sum{};
  if (args.x) sum = __ldcg(reinterpret_cast<const float2*>(args.x + at));
  const float2 own = own_sum<float2>(args, row, col);
  if constexpr (turn != Turn::kWait) {
    const TwoWords words{tagged(__float_as_uint(own.x), tag), tagged(__float_as_uint(own.y), tag)};
    for (int distance = 1; distance < links.num_ranks; ++distance) {
      const int to = peer_of(links.rank, distance, links.num_ranks);
      store_relaxed_system(
          links.inboxes[to].words + place_of(links.num_ranks, args.slot, links.rank, room) + at, words);
    }
  }
  if constexpr (turn != Turn::kSend) {
    Patience patience(links);
    const uint64_t* inbox = links.inboxes[links.rank].words;
    for (int r = 0; r < links.num_ranks; ++r) {
      const float2 more =
          r == links.rank
              ? own
              : wait_for_two(inbox + place_of(links.num_ranks, args.slot, r, room) + at, tag, patience);
      if (r == 0 && !args.x)
        sum = more;
      else
        add_to(sum, more);
    }
    *reinterpret_cast<float2*>(args.out + at) = sum;
  }
}

// Calls f(first of the thread's batch) for each batch of so many fours, kManyThreads apart. All of a batch is loaded before any of it is
// stored: one by one, each would take the latency of memory.
constexpr unsigned kSent{2}, kAdded{4};
template <unsigned batch, typename F>
__device__ void for_batches(unsigned first, unsigned last, const F& f) {
  for (unsigned i = first + threadIdx.x; i < last; i += batch * kManyThreads) f(i);
}

// CTA n of every rank has the same fours of the rows: it sends its own to all, says so, waits for the CTAs n of the others, and adds up.
template <Turn turn>
__global__ void __launch_bounds__(kManyThreads, kResidentSumCtas)
    sum_many_kernel(const __grid_constant__ SumArgs args, Divisor by_fours, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const Links& links = args.links;
  const unsigned num_fours = static_cast<unsigned>(args.num_rows * (links.hidden / 4)),
                 each = (num_fours + kSumCtas - 1) / kSumCtas, first = blockIdx.x * each,
                 last = min(first + each, num_fours);
  const int room = links.row_room * links.hidden, thread = static_cast<int>(threadIdx.x);
  const bool is_peer = thread < links.num_ranks && thread != links.rank;
  wait_for_predecessor(timestamps);
  let_successor_start();
  const uint32_t tag = tag_in_step(links, args.number);
  if constexpr (turn != Turn::kWait) {
    for_batches<kSent>(first, last, [&](unsigned from) {
      float4 own[kSent];
#pragma unroll
      for (unsigned n = 0; n < kSent; ++n)
        if (const unsigned i = from + n * kManyThreads; i < last)
          own[n] = own_sum<float4>(args, by_fours.quotient(i), 4 * static_cast<int>(by_fours.remainder(i)));
      for (int distance = 0; distance < links.num_ranks; ++distance) {
        const int to = peer_of(links.rank, distance, links.num_ranks);
        auto* rows = reinterpret_cast<float4*>(links.inboxes[to].rows +
                                               place_of(links.num_ranks, args.slot, links.rank, room));
#pragma unroll
        for (unsigned n = 0; n < kSent; ++n)
          if (const unsigned i = from + n * kManyThreads; i < last) rows[i] = own[n];
      }
    });
    __syncthreads();
    if (is_peer)
      store_release_system(links.inboxes[thread].flags +
                               place_of(links.num_ranks, args.slot, links.rank, kSumCtas) + blockIdx.x,
                           tag);
  }
  if constexpr (turn != Turn::kSend) {
    const Inbox& inbox = links.inboxes[links.rank];
    if (is_peer) {
      Patience patience(links);
      const uint32_t* flag =
          inbox.flags + place_of(links.num_ranks, args.slot, thread, kSumCtas) + blockIdx.x;
      while (load_acquire_system(flag) != tag && !patience.is_over()) {
      }
    }
    __syncthreads();
    const auto rows_of = [&](int r) {
      return reinterpret_cast<const float4*>(inbox.rows + place_of(links.num_ranks, args.slot, r, room));
    };
    for_batches<kAdded>(first, last, [&](unsigned from) {
      float4 sum[kAdded];
      const auto visit = [&](const auto& f) {
#pragma unroll
        for (unsigned n = 0; n < kAdded; ++n)
          if (const unsigned i = from + n * kManyThreads; i < last) f(n, i);
      };
      if (args.x)
        visit([&](unsigned n, unsigned i) { sum[n] = __ldcg(reinterpret_cast<const float4*>(args.x) + i); });
      for (int r = 0; r < links.num_ranks; ++r) {
        const auto* rows =
            reinterpret_cast<const float4*>(inbox.rows + place_of(links.num_ranks, args.slot, r, room));
        float4 more[kAdded];
        visit([&](unsigned n, unsigned i) { more[n] = __ldcg(rows + i); });
        if (r == 0 && !args.x)
          visit([&](unsigned n, unsigned) { sum[n] = more[n]; });
        else
          visit([&](unsigned n, unsigned) { add_to(sum[n], more[n]); });
      }
      visit([&](unsigned n, unsigned i) { reinterpret_cast<float4*>(args.out)[i] = sum[n]; });
    });
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
      // Another rank may be a meeting ahead.
      Patience patience(links);
      const uint32_t* arrival = links.inboxes[links.rank].arrivals + thread;
      while (!has_come(load_acquire_system(arrival), tag) && !patience.is_over()) {
      }
    }
    __syncthreads();
    if (thread > 0) return;
    if (StepOutput* const output = args.exchange.outputs[*links.step % 2]) output->met_ns = now_ns();
  }
}

// Calls f(integral constant of the turn).
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

Label label_of(const SumArgs& args) {
  return {args.x ? Operation::kExpertsDown : Operation::kProject, "sum"};
}

}  // namespace

void sum_over_ranks(const LaunchContext& gpu, const SumArgs& args, Turn turn) {
  const int hidden = args.links.hidden;
  NIBBLE_CHECK(args.num_rows <= kSumRows && args.num_parts <= kMaxExpertsPerToken && hidden % 4 == 0,
               "{} parts of {} rows of {}", args.num_parts, args.num_rows, hidden);
  NIBBLE_CHECK(device_caps().num_multiprocessors >= kLeastMultiprocessors, "{} multiprocessors",
               device_caps().num_multiprocessors);
  with_turn(turn, [&](auto t) {
    constexpr Turn kTurn = decltype(t)::value;
    if (args.num_rows <= kTaggedRows) {
      const auto ctas = static_cast<unsigned>((args.num_rows * (hidden / 2) + kFewThreads - 1) / kFewThreads);
      launch(gpu, label_of(args), sum_few_kernel<kTurn>, {dim3(ctas), kFewThreads}, args,
             Divisor(static_cast<unsigned>(hidden / 2)));
    } else {
      launch(gpu, label_of(args), sum_many_kernel<kTurn>, {dim3(kSumCtas), kManyThreads}, args,
             Divisor(static_cast<unsigned>(hidden / 4)));
    }
  });
}

void meet(const LaunchContext& gpu, const MeetArgs& args, Turn turn) {
  with_turn(turn, [&](auto t) {
    launch(gpu, {Operation::kSample, "meet"}, meet_kernel<decltype(t)::value>, {dim3(1), kMeetThreads}, args);
  });
}

void prepare_sums() {
  for (const Turn turn : {Turn::kSendAndWait, Turn::kSend, Turn::kWait})
    with_turn(turn, [&](auto t) {
      prefer_shared_memory(sum_few_kernel<decltype(t)::value>);
      prefer_shared_memory(sum_many_kernel<decltype(t)::value>);
      prefer_shared_memory(meet_kernel<decltype(t)::value>);
    });
}

}  // namespace nibble::cuda
