// Tests the shapes of launches that stream weights. Needs no GPU.
#include "backend/cuda/decode/stream_shape.h"

#include <gtest/gtest.h>

namespace nibble::cuda {
namespace {

constexpr Layout kLayouts[]{Layout::kBf16, Layout::kE4m3, Layout::kMxfp4};

TEST(CudaStreamShape, FitsTheBudgetAndHoldsAStripsSumsForAnyNumberOfColumns) {
  for (const Budget budget : kBudgets)
    for (const Layout layout : kLayouts)
      for (const int cols : {160, 2880, 4096})
        for (const int columns : {1, 2, 5, 8, 16})
          for (const int units : {1, 9, 31, 400}) {
            const Strips strips = make_strips(layout, 2880, cols);
            const StreamShape shape = stream_shape(budget, strips, cols, columns, units);
            EXPECT_LE(shape.shared_bytes, usable_bytes(budget));
            EXPECT_GE(shape.shared_bytes, stream_bytes(shape.of, layout, cols, shape.columns,
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

// With the widths of gpt-oss a single token has as many warps in 99 KB as in 227, and the sums of all its units.
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

TEST(CudaStreamShape, CutsColumnsIntoEvenPassesWhereTheyDoNotAllFit) {
  const Strips strips = make_strips(Layout::kBf16, 2880, 4096);
  EXPECT_EQ(stream_shape(Budget::k99, strips, 4096, 8, 16).columns, 4);
  EXPECT_EQ(stream_shape(Budget::k227, strips, 4096, 9, 16).columns, 5);
}

// A warp visits every unit that is its own, whatever the number of warps.
TEST(CudaStreamShape, StepsFromUnitToUnit) {
  for (const Budget budget : {Budget::k99, Budget::k227})
    for (const int cols : {320, 2880, 4096}) {
      const Strips plain = make_strips(Layout::kMxfp4, 2880, cols);
      const StreamShape shape = stream_shape(budget, plain, cols, 8, 64);
      const Strips strips = shape.strips(plain);
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
