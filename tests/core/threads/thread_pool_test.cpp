#include "core/threads/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace nibble {
namespace {

TEST(ThreadPool, EveryItemIsDoneOnceHoweverManyThreadsAndItems) {
  for (const int num_threads : {1, 2, 3, 8}) {
    ThreadPool pool(num_threads);
    ASSERT_EQ(pool.num_threads(), num_threads);
    for (const ptrdiff_t num_items : {0, 1, 2, 7, 8, 9, 1000}) {
      std::vector<int> times_done(static_cast<size_t>(num_items));
      pool.for_each(num_items, [&](ptrdiff_t item, int) { ++times_done[static_cast<size_t>(item)]; });
      EXPECT_EQ(times_done, std::vector<int>(static_cast<size_t>(num_items), 1)) << num_threads << " threads";
    }
  }
}

// A late thread must not run an item with the body of the next loop. The test runs thousands of short loops,
// each with its own numbers.
TEST(ThreadPool, ALoopNeverRunsItemsOfTheOneBefore) {
  ThreadPool pool(4);
  for (int loop = 0; loop < 20'000; ++loop) {
    const ptrdiff_t num_items = 2 + loop % 5;
    std::vector<int> seen(static_cast<size_t>(num_items), -1);
    pool.for_each(num_items, [&seen, loop](ptrdiff_t item, int) { seen[static_cast<size_t>(item)] = loop; });
    ASSERT_EQ(seen, std::vector<int>(static_cast<size_t>(num_items), loop));
  }
}

TEST(ThreadPool, WhatTheItemsWroteIsSeenAfterTheLoop) {
  ThreadPool pool(3);
  std::vector<ptrdiff_t> squares(10'000);
  pool.for_each(std::ssize(squares),
                [&](ptrdiff_t item, int) { squares[static_cast<size_t>(item)] = item * item; });
  ptrdiff_t expected = 0;
  for (ptrdiff_t i = 0; i < std::ssize(squares); ++i) expected += i * i;
  EXPECT_EQ(std::accumulate(squares.begin(), squares.end(), ptrdiff_t{0}), expected);
}

TEST(ThreadPool, NoTwoItemsAtOnceHaveTheSameThreadNumber) {
  ThreadPool pool(4);
  std::vector<std::atomic<bool>> is_busy(4);
  std::atomic<int> num_clashes{0};
  pool.for_each(5'000, [&](ptrdiff_t, int thread) {
    if (is_busy[static_cast<size_t>(thread)].exchange(true)) ++num_clashes;
    is_busy[static_cast<size_t>(thread)] = false;
  });
  EXPECT_EQ(num_clashes, 0);
}

// Runs two items that wait for each other. The items end only if two threads run them.
TEST(ThreadPool, TheOtherThreadsWorkToo) {
  ThreadPool pool(2);
  std::atomic<int> num_begun{0};
  pool.for_each(2, [&](ptrdiff_t, int) {
    ++num_begun;
    while (num_begun < 2) std::this_thread::yield();
  });
  EXPECT_EQ(num_begun, 2);
}

TEST(ThreadPool, SleepingThreadsAreWoken) {
  ThreadPool pool(2);
  // 20 ms is much longer than a worker spins before it sleeps.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::atomic<int> num_begun{0};
  pool.for_each(2, [&](ptrdiff_t, int) {
    ++num_begun;
    while (num_begun < 2) std::this_thread::yield();
  });
  EXPECT_EQ(num_begun, 2);
}

}  // namespace
}  // namespace nibble
