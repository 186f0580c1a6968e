// Tests the launch shapes of kernels that stream weights. Needs no GPU.
#include "backend/cuda/pipeline/stream_shape.h"
#include "backend/cuda/experts/launch.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "backend/cuda/experts/group_share.h"

namespace nibble::cuda {
namespace {

constexpr Layout kLayouts[]{Layout::kBf16, Layout::kE4m3, Layout::kMxfp4};

TEST(CudaStreamShape, FitsTheBudgetAndHoldsAStripsSumsForAnyNumberOfColumns) {
  for (const Budget budget : kBudgets)
    for (const Layout layout : kLayouts)
      for (const int cols : {160, 2880, 4096})
        for (const int columns : {1, 2, 5, 8, 16})
          for (const int units : {1, 9, 31, 400})
            for (const int buffers : {1, 2}) {
              const Strips strips = make_strips(layout, 2880, cols);
              const StreamShape shape = stream_shape(budget, strips, cols, columns, units, buffers);
              EXPECT_LE(shape.shared_bytes, usable_bytes(budget));
              EXPECT_GE(shape.shared_bytes,
                        stream_bytes(shape.of, layout, cols, buffers * shape.columns, shape.columns,
                                     std::min(units, strips.num_segments)));
              EXPECT_TRUE(is_for(shape.of, layout));
              EXPECT_GE(shape.columns, 1);
            }
}

TEST(CudaStreamShape, OnHopperIsTheOneThatWasMeasured) {
  const Strips strips = make_strips(Layout::kBf16, 2880, 4096);
  const StreamShape shape = stream_shape(Budget::k227, strips, 4096, 8, 31);
  EXPECT_EQ(shape.of.warps, 16);
  EXPECT_EQ(shape.of.slots, 3);
  EXPECT_EQ(shape.columns, 8);
}

// Shared memory must hold the activations of two groups of pairs, because experts_down() loads those of the
// next expert while it multiplies (experts/stream.cu).
TEST(CudaStreamShape, OnHopperHoldsTheActivationsOfTwoGroups) {
  const StreamShape shape = stream_shape(Budget::k227, make_strips(Layout::kMxfp4, 2880, 2880), 2880, 8, 360,
                                         /*buffers=*/2);
  EXPECT_EQ(shape.of.warps, 16);
  EXPECT_EQ(shape.columns, 8);
}

// With gpt-oss's widths, one token gets the same number of warps in 99 KB as in 227 KB, and room for the same
// number of sums.
TEST(CudaStreamShape, OneTokenHasAsManyWarpsInTheSmallestBudget) {
  for (const Layout layout : kLayouts)
    for (const int cols : {2880, 4096}) {
      const StreamShape shape = stream_shape(Budget::k99, make_strips(layout, 2880, cols), cols, 1, 38);
      EXPECT_EQ(shape.of.warps, 16);
      EXPECT_EQ(shape.of.slots, 2);
    }
  const Strips up = make_strips(Layout::kMxfp4, 5760, 2880);
  EXPECT_EQ(stream_shape(Budget::k99, up, 2880, 1, 99).shared_bytes,
            stream_shape(Budget::k227, up, 2880, 1, 99).shared_bytes);
}

// A multiprocessor has 100, 164 or 228 KB of shared memory, 1 KB more than the budget of a CTA.
TEST(CudaStreamShape, AnExclusiveCtaLeavesNoRoomForAnother) {
  for (const Budget budget : kBudgets) {
    const size_t cta = static_cast<size_t>(kilobytes(budget)) * 1024, driver = 1024;
    EXPECT_GT(2 * (alone_bytes(cta) + driver), cta + 1024);
    EXPECT_LE(alone_bytes(cta), usable_bytes(cta));
  }
}

TEST(CudaStreamShape, CutsColumnsIntoEvenPassesWhereTheyDoNotAllFit) {
  const Strips strips = make_strips(Layout::kBf16, 2880, 4096);
  EXPECT_EQ(stream_shape(Budget::k99, strips, 4096, 8, 16).columns, 4);
  EXPECT_EQ(stream_shape(Budget::k227, strips, 4096, 9, 16).columns, 5);
}

TEST(CudaStreamShape, SharesEvenlyAndCompletelyHoweverManyCtasThereAre) {
  for (const int rows : {16, 2880, 5120, 201088})
    for (const unsigned num_ctas : {1u, 7u, 33u, 48u, 132u, 256u})
      for (const bool whole_strips : {false, true}) {
        const Strips plain = make_strips(Layout::kBf16, rows, 2880);
        const Strips strips = stream_shape(Budget::k227, plain, 2880, 1, 9).strips(plain, num_ctas);
        const int64_t units = int64_t{strips.num_strips} * (whole_strips ? 1 : strips.num_segments);
        for (unsigned cta = 0; cta < num_ctas; ++cta) {
          const UnitRange range = share_of(strips, whole_strips, cta);
          const int scale = whole_strips ? strips.num_segments : 1;
          EXPECT_EQ(range.first, units * cta / num_ctas * scale);
          EXPECT_EQ(range.last, units * (cta + 1) / num_ctas * scale);
        }
      }
}

// A share's size counts its strips, and kCrossingStrips more for each crossing from one group to the next. A
// part of a crossing may be in the previous share.
TEST(CudaStreamShape, SharesTheStripsOfGroupsCompletelyAndEvenlyWhereStepsBetweenThemCountAsStrips) {
  for (const int rows : {16, 96, 2880, 5760})
    for (const unsigned num_ctas : {1u, 7u, 33u, 132u})
      for (const int num_groups : {0, 1, 2, 8, 29, 64}) {
        const Strips plain = make_strips(Layout::kMxfp4, rows, 2880);
        const Strips strips = stream_shape(Budget::k227, plain, 2880, 1, 9).strips(plain, num_ctas);
        EXPECT_EQ(first_strip_of(strips, num_groups, 0), 0);
        EXPECT_EQ(first_strip_of(strips, num_groups, num_ctas), num_groups * strips.num_strips);
        const double even = num_places(strips, num_groups) / static_cast<double>(num_ctas);
        for (unsigned cta = 0; cta < num_ctas; ++cta) {
          const int first = first_strip_of(strips, num_groups, cta),
                    last = first_strip_of(strips, num_groups, cta + 1);
          ASSERT_LE(first, last);
          int steps = 0;
          for (int group = 1; group < num_groups; ++group)
            steps += first < group * strips.num_strips && group * strips.num_strips < last;
          EXPECT_LT(last - first + steps * kCrossingStrips, even + 1);
          if (steps == 0) {
            EXPECT_GT(last - first, even - 1 - 2 * kCrossingStrips);
          }
        }
      }
}

// Turns are numbered in the order in which CTAs begin, and the first turns get the largest shares. The start
// of a share is rounded down twice, to 2^-16 of the total and to a whole unit. So the size of a share is off
// by less than 1 + 2^-16 of the total.
TEST(CudaStreamShape, SharesByTurnsAreCompleteAndBecomeSmallerByAnEvenStep) {
  for (const unsigned num_ctas : {1u, 7u, 33u, 132u, 200u})
    for (const unsigned slope : {0u, 3u, 16u})
      for (const unsigned count : {0u, 1u, 180u, 720u, 5822u}) {
        const TurnShares shares(num_ctas, slope);
        EXPECT_EQ(shares.first(count, 0), 0u);
        EXPECT_EQ(shares.first(count, num_ctas), count);
        const double mean = static_cast<double>(count) / num_ctas;
        for (unsigned turn = 0; turn < num_ctas; ++turn) {
          const unsigned first = shares.first(count, turn), last = shares.first(count, turn + 1);
          ASSERT_LE(first, last);
          const double step = slope / static_cast<double>(TurnShares::kSlopeOne),
                       expected = mean * (1 + step - step * (2 * turn + 1) / num_ctas);
          EXPECT_NEAR(last - first, expected, 1 + count / 65536.0)
              << turn << " of " << num_ctas << ", " << count;
        }
      }
}

TEST(CudaDivisor, DividesAsTheProcessorDoes) {
  for (const unsigned divisor :
       {1u, 2u, 3u, 5u, 9u, 33u, 48u, 132u, 180u, 641u, 65535u, 65536u, (1u << 31) - 1, 1u << 31}) {
    const Divisor by(divisor);
    const auto expect_right = [&](unsigned n) {
      EXPECT_EQ(by.quotient(n), n / divisor) << n << " / " << divisor;
      EXPECT_EQ(by.remainder(n), n % divisor) << n << " / " << divisor;
    };
    for (unsigned n = 0; n < 2000; ++n) {
      expect_right(n);
      expect_right((1u << 31) - 1 - n);
      expect_right(static_cast<unsigned>((uint64_t{n} * divisor) % (1u << 31)));
      expect_right(static_cast<unsigned>((uint64_t{n} * divisor + divisor - 1) % (1u << 31)));
    }
  }
}

// For every number of warps, each warp visits all of its units.
TEST(CudaStreamShape, StepsFromUnitToUnit) {
  for (const Budget budget : {Budget::k99, Budget::k227})
    for (const int cols : {320, 2880, 4096}) {
      const Strips plain = make_strips(Layout::kMxfp4, 2880, cols);
      const StreamShape shape = stream_shape(budget, plain, cols, 8, 64);
      const Strips strips = shape.strips(plain, 132);
      int segment = 0, bytes = 0;
      for (int unit = 0; unit < plain.num_strips * plain.num_segments - shape.of.warps;
           unit += shape.of.warps) {
        EXPECT_EQ(bytes, unit / plain.num_segments * plain.strip_bytes + segment * plain.segment_bytes);
        EXPECT_EQ(segment, unit % plain.num_segments);
        bytes += strips.advance_bytes;
        segment += strips.advance_segments;
        if (segment >= plain.num_segments) {
          segment -= plain.num_segments;
          bytes += strips.wrap_bytes;
        }
      }
    }
}

}  // namespace
}  // namespace nibble::cuda
