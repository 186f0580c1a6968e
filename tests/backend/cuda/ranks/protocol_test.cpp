// Runs the protocol of ranks (backend/cuda/ranks/protocol.h) with threads of the host in place of GPUs: the same words, flags and slots, in
// the same order as the kernels of sum.cu, with C++'s atomics. Under ThreadSanitizer a row that is written while it is read is an error.
#include "backend/cuda/ranks/protocol.h"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include "core/random.h"

namespace nibble::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// Of a step: halves of layers, each with one sum, then two meetings.
constexpr int kHalves{6}, kLogits{kHalves}, kTokens{kHalves + 1}, kMessages{kHalves + 2};
constexpr int kNumbers{6}, kCtas{2};  // of a sum of few rows; CTAs of one of many, each with as many numbers

enum class Kind { kFew, kMany };

struct TwinInbox {
  TwinInbox(int num_ranks, int num_slots)
      : words(place_of(num_ranks, num_slots, 0, kNumbers)),
        rows(place_of(num_ranks, num_slots, 0, kCtas * kNumbers)),
        flags(place_of(num_ranks, num_slots, 0, kCtas)),
        arrivals(static_cast<size_t>(num_ranks)) {}

  std::vector<std::atomic<uint64_t>> words;
  std::vector<float> rows;
  std::vector<std::atomic<uint32_t>> flags, arrivals;
  uint32_t token{0};  // what the first rank sends with a meeting
};

float term_of(int rank, uint32_t step, int half, size_t i) {
  return static_cast<float>(random_bits(step * kHalves + static_cast<uint32_t>(half), 1000 * rank + i) %
                            1000) /
         7;
}

// All that the ranks share. `num_slots`: kInboxSlots, or a mutant's.
class Twin {
 public:
  Twin(int num_ranks, int num_slots, std::chrono::milliseconds patience)
      : num_ranks_(num_ranks), num_slots_(num_slots), patience_(patience) {
    for (int rank = 0; rank < num_ranks; ++rank) inboxes_.emplace_back(num_ranks, num_slots);
  }

  // Called by each rank at each of these places; tests delay ranks in it.
  std::function<void(int rank, uint32_t step, int half)> before_sending, before_reading;

  // Runs steps 1 to `num_steps` on a thread for each rank, and says whether all ranks had all sums and tokens in time.
  bool run(uint32_t num_steps, const std::function<Kind(uint32_t step)>& kind_of) {
    std::latch begin(num_ranks_);
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < num_ranks_; ++rank)
      threads.emplace_back([&, rank] {
        begin.arrive_and_wait();
        for (uint32_t step = 1; step <= num_steps && !failed_; ++step) run_step(rank, step, kind_of(step));
      });
    threads.clear();
    return !failed_;
  }

 private:
  void run_step(int rank, uint32_t step, Kind kind) {
    for (int half = 0; half < kHalves && !failed_; ++half) {
      const uint32_t tag = tag_of(step, kMessages, half);
      const int slot = slot_of_sum(half, 0, 1) % num_slots_;
      if (before_sending) before_sending(rank, step, half);
      const auto note = [&] {
        if (before_reading) before_reading(rank, step, half);
      };
      kind == Kind::kFew ? sum_few(rank, step, half, tag, slot, note)
                         : sum_many(rank, step, half, tag, slot, note);
    }
    if (!failed_) meet(rank, tag_of(step, kMessages, kLogits), {});
    if (!failed_) meet(rank, tag_of(step, kMessages, kTokens), step + 7);
    if (!failed_ && inbox(rank).token != step + 7) failed_ = true;
  }

  template <typename F>
  void sum_few(int rank, uint32_t step, int half, uint32_t tag, int slot, const F& before_reading) {
    for (int distance = 1; distance < num_ranks_; ++distance) {
      TwinInbox& to = inbox(peer_of(rank, distance, num_ranks_));
      for (size_t i = 0; i < kNumbers; ++i)
        to.words[place_of(num_ranks_, slot, rank, kNumbers) + i].store(
            tagged(std::bit_cast<uint32_t>(term_of(rank, step, half, i)), tag), std::memory_order_relaxed);
    }
    before_reading();
    for (size_t i = 0; i < kNumbers; ++i) {
      float sum = 0;
      for (int r = 0; r < num_ranks_; ++r) {
        const std::atomic<uint64_t>& word = inbox(rank).words[place_of(num_ranks_, slot, r, kNumbers) + i];
        if (r != rank) poll([&] { return has_tag(word.load(std::memory_order_relaxed), tag); });
        sum += r == rank ? term_of(rank, step, half, i)
                         : std::bit_cast<float>(untagged(word.load(std::memory_order_relaxed)));
      }
      check_sum(sum, step, half, i);
    }
  }

  template <typename F>
  void sum_many(int rank, uint32_t step, int half, uint32_t tag, int slot, const F& before_reading) {
    constexpr int kRoom{kCtas * kNumbers};
    for (int cta = 0; cta < kCtas; ++cta) {
      const auto first = static_cast<size_t>(cta) * kNumbers;
      for (int distance = 0; distance < num_ranks_; ++distance) {
        TwinInbox& to = inbox(peer_of(rank, distance, num_ranks_));
        for (size_t i = first; i < first + kNumbers; ++i)
          to.rows[place_of(num_ranks_, slot, rank, kRoom) + i] = term_of(rank, step, half, i);
      }
      for (int distance = 1; distance < num_ranks_; ++distance)
        flag_of(peer_of(rank, distance, num_ranks_), slot, rank, cta).store(tag, std::memory_order_release);
    }
    before_reading();
    for (int cta = 0; cta < kCtas; ++cta) {
      for (int r = 0; r < num_ranks_; ++r)
        if (r != rank)
          poll([&] { return flag_of(rank, slot, r, cta).load(std::memory_order_acquire) == tag; });
      if (failed_) return;
      const auto first = static_cast<size_t>(cta) * kNumbers;
      for (size_t i = first; i < first + kNumbers; ++i) {
        float sum = 0;
        for (int r = 0; r < num_ranks_; ++r)
          sum += inbox(rank).rows[place_of(num_ranks_, slot, r, kRoom) + i];
        check_sum(sum, step, half, i);
      }
    }
  }

  void meet(int rank, uint32_t tag, uint32_t token) {
    for (int r = 0; r < num_ranks_; ++r)
      if (rank == 0 && token != 0) inbox(r).token = token;
    for (int r = 0; r < num_ranks_; ++r)
      if (r != rank) inbox(r).arrivals[static_cast<size_t>(rank)].store(tag, std::memory_order_release);
    for (int r = 0; r < num_ranks_; ++r)
      if (r != rank)
        poll([&] {
          return has_come(inbox(rank).arrivals[static_cast<size_t>(r)].load(std::memory_order_acquire), tag);
        });
  }

  template <typename F>
  void poll(const F& has_arrived) {
    const auto until = Clock::now() + patience_;
    while (!has_arrived() && !failed_) {
      if (Clock::now() > until) failed_ = true;
      std::this_thread::yield();
    }
  }

  void check_sum(float sum, uint32_t step, int half, size_t i) {
    float expected = 0;
    for (int r = 0; r < num_ranks_; ++r) expected += term_of(r, step, half, i);
    if (sum != expected) failed_ = true;
  }

  TwinInbox& inbox(int rank) { return inboxes_[static_cast<size_t>(rank)]; }
  std::atomic<uint32_t>& flag_of(int rank, int slot, int from_rank, int cta) {
    return inbox(rank).flags[place_of(num_ranks_, slot, from_rank, kCtas) + static_cast<size_t>(cta)];
  }

  int num_ranks_, num_slots_;
  std::chrono::milliseconds patience_;
  std::vector<TwinInbox> inboxes_;
  std::atomic<bool> failed_{false};
};

constexpr std::chrono::seconds kLong{20};

TEST(RanksProtocol, EveryRankHasEverySumWhateverTheDelays) {
  const auto in_turn = [](uint32_t step) { return step % 3 == 0 ? Kind::kMany : Kind::kFew; };
  for (const int num_ranks : {2, 3, 4, 8}) {
    Twin twin(num_ranks, kInboxSlots, kLong);
    twin.before_sending = [](int rank, uint32_t step, int half) {
      const uint64_t chance = random_bits(100 + rank, step * kHalves + static_cast<uint32_t>(half));
      if (chance % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(chance % 200));
    };
    twin.before_reading = [&twin](int rank, uint32_t step, int half) {
      twin.before_sending(rank + 50, step, half);
    };
    EXPECT_TRUE(twin.run(25, in_turn)) << num_ranks;
  }
}

// The second rank is slow to read: it waits for the first to send the sum behind the one that it has to read, as far as that may be.
bool is_right_for_a_slow_reader(int num_slots, Kind kind) {
  Twin twin(2, num_slots, std::chrono::milliseconds(num_slots == 1 ? 50 : 5000));
  std::atomic<int> sent{0};
  twin.before_reading = [&](int rank, uint32_t, int half) {
    if (rank == 0) sent = half + 1;
    if (rank == 1 && half < 2)
      while (sent < half + 2) std::this_thread::yield();
  };
  return twin.run(1, [kind](uint32_t) { return kind; });
}

TEST(RanksProtocol, TwoSlotsAreEnoughForASlowReaderAndOneIsNot) {
  for (const Kind kind : {Kind::kFew, Kind::kMany}) {
    EXPECT_TRUE(is_right_for_a_slow_reader(kInboxSlots, kind));
    EXPECT_FALSE(is_right_for_a_slow_reader(1, kind));
  }
}

TEST(RanksProtocol, TagsMayWrap) {
  EXPECT_EQ(tag_of(0xffffffff, 8, 7), 0xffffffffu);
  EXPECT_EQ(tag_of(0, 8, 0), 0u);
  EXPECT_TRUE(has_come(tag_of(0, 8, 0), tag_of(0xffffffff, 8, 7)));
  EXPECT_FALSE(has_come(tag_of(0xffffffff, 8, 7), tag_of(0, 8, 0)));
  EXPECT_TRUE(has_tag(tagged(0x12345678, 0x9abcdef0), 0x9abcdef0));
  EXPECT_FALSE(has_tag(tagged(0x12345678, 0x9abcdef0), 0x12345678));
  EXPECT_EQ(untagged(tagged(0x12345678, 0x9abcdef0)), 0x12345678u);
}

}  // namespace
}  // namespace nibble::cuda
