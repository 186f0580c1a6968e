// Runs the protocol of ranks (backend/cuda/ranks/protocol.h) with host threads instead of GPUs. The test uses
// the same words, flags and slots in the same order as the all-reduce kernels, with C++ atomics.
// ThreadSanitizer reports a row that is written while it is read.
#include "backend/cuda/ranks/protocol.h"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include "core/numbers/random.h"

namespace nibble::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// Messages of a step: one sum for each half of a layer, then two barriers (logits and tokens).
constexpr int kHalves{6}, kLogits{kHalves}, kTokens{kHalves + 1}, kMessages{kHalves + 2};
// kNumbers: floats per row (a sum of words has one row). kRows: rows of a sum whose rows have owners.
constexpr int kNumbers{6}, kRows{7};

enum class Kind { kWords, kDealt };

struct TwinInbox {
  TwinInbox(int num_ranks, int num_slots)
      : words(place_of(num_ranks, num_slots, 0, kNumbers)),
        terms(static_cast<size_t>(num_ranks * most_owned(kRows, num_ranks) * kNumbers)),
        flags(static_cast<size_t>(num_ranks * most_owned(kRows, num_ranks))),
        returned(kRows),
        arrivals(static_cast<size_t>(num_ranks)),
        sums(size_t{kRows} * kNumbers) {}

  std::vector<std::atomic<uint64_t>> words;
  std::vector<float> terms;
  std::vector<std::atomic<uint32_t>> flags, returned, arrivals;
  std::vector<float> sums;  // the rows' sums, received from their owners or computed by this rank
  uint32_t token{0};        // sent by rank 0 with the second barrier
};

float term_of(int rank, uint32_t step, int half, size_t i) {
  return static_cast<float>(random_bits(step * kHalves + static_cast<uint32_t>(half), 1000 * rank + i) %
                            1000) /
         7;
}

// All state that the ranks share. `num_slots` is kInboxSlots, or fewer to provoke an error.
class Twin {
 public:
  Twin(int num_ranks, int num_slots, std::chrono::milliseconds patience)
      : num_ranks_(num_ranks), num_slots_(num_slots), patience_(patience) {
    for (int rank = 0; rank < num_ranks; ++rank) inboxes_.emplace_back(num_ranks, num_slots);
  }

  // Whether a rank waits for the rows that other ranks own. False is an error, which a test must detect.
  bool waits_for_rows{true};
  // Each rank calls these functions before it sends and before it reads. Tests use them to delay ranks.
  std::function<void(int rank, uint32_t step, int half)> before_sending, before_reading;

  // Runs steps 1 to `num_steps`, one thread per rank. Returns whether ranks had all sums and tokens in time.
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
      kind == Kind::kWords ? sum_words(rank, step, half, tag, slot, note)
                           : sum_dealt(rank, step, half, tag, note);
    }
    if (!failed_) meet(rank, tag_of(step, kMessages, kLogits), {});
    if (!failed_) meet(rank, tag_of(step, kMessages, kTokens), step + 7);
    if (!failed_ && inbox(rank).token != step + 7) failed_ = true;
  }

  template <typename F>
  void sum_words(int rank, uint32_t step, int half, uint32_t tag, int slot, const F& after_sending) {
    for (int distance = 1; distance < num_ranks_; ++distance) {
      TwinInbox& to = inbox(peer_of(rank, distance, num_ranks_));
      for (size_t i = 0; i < kNumbers; ++i)
        to.words[place_of(num_ranks_, slot, rank, kNumbers) + i].store(
            tagged(std::bit_cast<uint32_t>(term_of(rank, step, half, i)), tag), std::memory_order_relaxed);
    }
    after_sending();
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
  void sum_dealt(int rank, uint32_t step, int half, uint32_t tag, const F& after_sending) {
    const int own_room = most_owned(kRows, num_ranks_), num_others = own_room * (num_ranks_ - 1);
    const auto place = [&](int from, int row) {
      return place_of(1, 0, from, own_room) + static_cast<size_t>(index_of(row, num_ranks_));
    };
    const auto first_of = [](int row) { return static_cast<size_t>(row * kNumbers); };
    for (int n = 0; n < num_others; ++n) {
      const int row = others_row(n, rank, num_ranks_);
      if (row >= kRows) continue;
      TwinInbox& to = inbox(owner_of(row, num_ranks_));
      for (size_t i = 0; i < kNumbers; ++i)
        to.terms[place(rank, row) * kNumbers + i] = term_of(rank, step, half, first_of(row) + i);
      to.flags[place(rank, row)].store(tag, std::memory_order_release);
    }
    after_sending();
    for (int row = rank; row < kRows; row += num_ranks_) {
      TwinInbox& own = inbox(rank);
      for (int r = 0; r < num_ranks_; ++r)
        if (r != rank) poll([&] { return own.flags[place(r, row)].load(std::memory_order_acquire) == tag; });
      if (failed_) return;
      for (size_t i = 0; i < kNumbers; ++i) {
        float sum = 0;
        for (int r = 0; r < num_ranks_; ++r)
          sum += r == rank ? term_of(rank, step, half, first_of(row) + i)
                           : own.terms[place(r, row) * kNumbers + i];
        for (int r = 0; r < num_ranks_; ++r) inbox(r).sums[first_of(row) + i] = sum;
      }
      for (int r = 0; r < num_ranks_; ++r)
        if (r != rank) inbox(r).returned[static_cast<size_t>(row)].store(tag, std::memory_order_release);
    }
    if (!waits_for_rows) return;
    for (int n = 0; n < num_others; ++n)
      if (const int row = others_row(n, rank, num_ranks_); row < kRows)
        poll([&] {
          return inbox(rank).returned[static_cast<size_t>(row)].load(std::memory_order_acquire) == tag;
        });
    if (failed_) return;
    for (size_t i = 0; i < inbox(rank).sums.size(); ++i) check_sum(inbox(rank).sums[i], step, half, i);
  }

  void meet(int rank, uint32_t tag, uint32_t token) {
    for (int r = 0; r < num_ranks_; ++r)
      if (rank == 0 && token != 0) inbox(r).token = token;
    for (int r = 0; r < num_ranks_; ++r)
      if (r != rank) inbox(r).arrivals[static_cast<size_t>(rank)].store(tag, std::memory_order_release);
    for (int r = 0; r < num_ranks_; ++r)
      if (r != rank)
        poll([&] {
          return has_reached(inbox(rank).arrivals[static_cast<size_t>(r)].load(std::memory_order_acquire),
                             tag);
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

  int num_ranks_, num_slots_;
  std::chrono::milliseconds patience_;
  std::vector<TwinInbox> inboxes_;
  std::atomic<bool> failed_{false};
};

constexpr std::chrono::seconds kLong{20};

TEST(RanksProtocol, EveryRankHasEverySumWhateverTheDelays) {
  const auto in_turn = [](uint32_t step) { return step % 3 == 0 ? Kind::kDealt : Kind::kWords; };
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

// Rank 1 reads slowly: before it reads a sum, it waits until rank 0 has sent the next one.
bool is_right_for_a_slow_reader(int num_slots) {
  Twin twin(2, num_slots, std::chrono::milliseconds(num_slots == 1 ? 50 : 5000));
  std::atomic<int> sent{0};
  twin.before_reading = [&](int rank, uint32_t, int half) {
    if (rank == 0) sent = half + 1;
    if (rank == 1 && half < 2)
      while (sent < half + 2) std::this_thread::yield();
  };
  return twin.run(1, [](uint32_t) { return Kind::kWords; });
}

TEST(RanksProtocol, TwoSlotsOfWordsAreEnoughForASlowReaderAndOneIsNot) {
  EXPECT_TRUE(is_right_for_a_slow_reader(kInboxSlots));
  EXPECT_FALSE(is_right_for_a_slow_reader(1));
}

// Rank 1 reads slowly. So rank 0 has time to write terms of the next sum over terms that rank 1 must still
// read.
bool is_right_for_a_slow_owner(bool waits_for_rows) {
  Twin twin(2, kInboxSlots, std::chrono::milliseconds(waits_for_rows ? 5000 : 50));
  twin.waits_for_rows = waits_for_rows;
  std::atomic<int> sent{0};
  twin.before_reading = [&](int rank, uint32_t, int half) {
    if (rank == 0) sent = half + 1;
    if (rank == 1 && half == 0)
      for (int n = 0; n < 100 && sent < 2; ++n) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  return twin.run(1, [](uint32_t) { return Kind::kDealt; });
}

TEST(RanksProtocol, TermsNeedOneSlotBecauseRowsAreWaitedFor) {
  EXPECT_TRUE(is_right_for_a_slow_owner(true));
  EXPECT_FALSE(is_right_for_a_slow_owner(false));
}

TEST(RanksProtocol, EveryRowHasOneOwnerToWhomEveryOtherRankSendsItsTerms) {
  for (const int num_ranks : {2, 3, 4, 8})
    for (const int num_rows : {1, 7, 8, 100})
      for (int rank = 0; rank < num_ranks; ++rank) {
        std::vector<int> times(static_cast<size_t>(num_rows));
        for (int row = rank; row < num_rows; row += num_ranks) ++times[static_cast<size_t>(row)];
        for (int n = 0; n < most_owned(num_rows, num_ranks) * (num_ranks - 1); ++n)
          if (const int row = others_row(n, rank, num_ranks); row < num_rows) {
            ++times[static_cast<size_t>(row)];
            EXPECT_NE(owner_of(row, num_ranks), rank);
            EXPECT_LT(index_of(row, num_ranks), most_owned(num_rows, num_ranks));
          }
        EXPECT_EQ(times, std::vector<int>(static_cast<size_t>(num_rows), 1));
      }
}

TEST(RanksProtocol, TagsMayWrap) {
  EXPECT_EQ(tag_of(0xffffffff, 8, 7), 0xffffffffu);
  EXPECT_EQ(tag_of(0, 8, 0), 0u);
  EXPECT_TRUE(has_reached(tag_of(0, 8, 0), tag_of(0xffffffff, 8, 7)));
  EXPECT_FALSE(has_reached(tag_of(0xffffffff, 8, 7), tag_of(0, 8, 0)));
  EXPECT_TRUE(has_tag(tagged(0x12345678, 0x9abcdef0), 0x9abcdef0));
  EXPECT_FALSE(has_tag(tagged(0x12345678, 0x9abcdef0), 0x12345678));
  EXPECT_EQ(untagged(tagged(0x12345678, 0x9abcdef0)), 0x12345678u);
}

}  // namespace
}  // namespace nibble::cuda
