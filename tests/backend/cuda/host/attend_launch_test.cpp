#include "backend/cuda/attention/launch.h"

#include <gtest/gtest.h>

namespace nibble::cuda {
namespace {

constexpr int kHeads{8}, kMultiprocessors{132}, kMailbox{1 << 20};

AttendLaunch launch_of(int num_rows, int max_chunks, int mailbox_partials = kMailbox) {
  Target target;
  target.num_multiprocessors = kMultiprocessors;
  return attend_launch(target, num_rows, kHeads, max_chunks, mailbox_partials);
}
bool are_resident(int num_rows, const AttendLaunch& launch) {
  return num_rows * kHeads * launch.ctas_of_head <= kAttendCtas * kMultiprocessors;
}

TEST(CudaAttendLaunch, AShortRowHasOneCtaForEachHead) {
  for (const int rows : {1, 2, 64, 1000}) {
    EXPECT_EQ(launch_of(rows, 1).ctas_of_head, 1);
    EXPECT_EQ(launch_of(rows, 1).chunks, Chunks::kOne);
  }
}

TEST(CudaAttendLaunch, AllCtasOfOneOrTwoRowsAreResident) {
  for (const int rows : {1, 2})
    for (int chunks = 1; chunks <= 512; ++chunks)
      EXPECT_TRUE(are_resident(rows, launch_of(rows, chunks))) << rows << ' ' << chunks;
}

TEST(CudaAttendLaunch, ACtaOfALargerBatchTakesAtMostFourChunks) {
  for (const int rows : {3, 16, 256})
    for (int chunks = 2; chunks <= 512; ++chunks) {
      const AttendLaunch launch = launch_of(rows, chunks);
      EXPECT_LE((chunks + launch.ctas_of_head - 1) / launch.ctas_of_head, 4) << rows << ' ' << chunks;
      EXPECT_EQ(launch.chunks, launch.ctas_of_head == chunks ? Chunks::kOneOfCta : Chunks::kSeveralOfCta);
    }
}

// All CTAs that wait for each other must be resident.
TEST(CudaAttendLaunch, OnlyResidentCtasWithRoomInTheMailboxJoinMoreThanEightChunks) {
  for (const int rows : {1, 2, 3, 16, 256})
    for (int chunks = 1; chunks <= 512; ++chunks) {
      const AttendLaunch launch = launch_of(rows, chunks);
      EXPECT_EQ(launch.joins_by_mailbox, are_resident(rows, launch) && chunks > 8) << rows << ' ' << chunks;
      EXPECT_FALSE(launch_of(rows, chunks, rows * kHeads * chunks - 1).joins_by_mailbox);
    }
}

// A launch is crowded if it has at least three times the number of CTAs that are resident at once, which is
// two per multiprocessor.
TEST(CudaAttendLaunch, ManyCtasAreACrowdThatNeverWaitsForEachOther) {
  EXPECT_FALSE(launch_of(98, 1).is_crowded);
  EXPECT_TRUE(launch_of(99, 1).is_crowded);  // 99 rows x 8 heads = 3 x 2 x 132 CTAs
  EXPECT_FALSE(launch_of(24, 16).is_crowded);
  EXPECT_TRUE(launch_of(25, 16).is_crowded);  // 25 rows x 8 heads x 4 CTAs per head = 800 CTAs
  for (const int rows : {1, 2, 3, 16, 99, 256})
    for (int chunks = 1; chunks <= 512; ++chunks)
      EXPECT_FALSE(launch_of(rows, chunks).is_crowded && launch_of(rows, chunks).joins_by_mailbox);
}

}  // namespace
}  // namespace nibble::cuda
