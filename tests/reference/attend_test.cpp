#include "reference/attend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/reference/operands.h"

namespace nibble::reference {
namespace {

constexpr float kNoSink{-1e30f};

// Runs one query of one head of 4 elements at `position`. Scores are half of q . k.
std::vector<float> attend_one(const OneSequenceKv& kv, int position, std::vector<float> q, float sink,
                              std::optional<int> window = {}) {
  const std::vector<float> sinks{sink};
  const BatchRow rows[]{kv.row(position)};
  std::vector<float> out(4, std::numeric_limits<float>::quiet_NaN());
  attend({View<const float, 3>(q.data(), {1, 1, 4}), rows, kv.layer(), vector_of(sinks), window,
          View<float, 2>(out.data(), {1, 4})});
  return out;
}

TEST(Attend, TwoKeysByHand) {
  const OneSequenceKv kv(1, 1, 4);
  kv.key(0)[0] = 1;  // scores are 1 and 0, the sink is 0
  kv.value(0)[0] = 1;
  kv.value(1)[1] = 1;
  const std::vector<float> out = attend_one(kv, 1, {2, 0, 0, 0}, 0);
  const double e = std::exp(1.0);
  EXPECT_FLOAT_EQ(out[0], static_cast<float>(e / (e + 2)));
  EXPECT_FLOAT_EQ(out[1], static_cast<float>(1 / (e + 2)));
  EXPECT_EQ(out[2], 0);
}

TEST(Attend, TheSinkIsAColumnWithoutAValueAndNotScaled) {
  const OneSequenceKv kv(1, 1, 4);
  kv.value(0)[0] = 1;  // the score is 0
  EXPECT_FLOAT_EQ(attend_one(kv, 0, {0, 0, 0, 0}, kNoSink)[0], 1);
  EXPECT_FLOAT_EQ(attend_one(kv, 0, {0, 0, 0, 0}, 0)[0], 0.5f);
  EXPECT_FLOAT_EQ(attend_one(kv, 0, {0, 0, 0, 0}, std::log(3.0f))[0], 0.25f);
  EXPECT_FLOAT_EQ(attend_one(kv, 0, {0, 0, 0, 0}, 100)[0], static_cast<float>(std::exp(-100.0)));
}

TEST(Attend, ScoresFarOutOfTheRangeOfExpAreNoTrouble) {
  const OneSequenceKv kv(1, 1, 4);
  kv.key(0)[0] = 1e4f;
  kv.value(0)[0] = 7;
  EXPECT_EQ(attend_one(kv, 1, {1e4f, 0, 0, 0}, 0)[0], 7);
  EXPECT_EQ(attend_one(kv, 0, {-1e4f, 0, 0, 0}, 0)[0], 0);
}

TEST(Attend, PositionsAfterItsOwnAreNotSeen) {
  const OneSequenceKv kv(1, 1, 4);
  kv.value(0)[0] = kv.value(1)[0] = 1;
  kv.key(2)[0] = kv.value(2)[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FLOAT_EQ(attend_one(kv, 1, {1, 0, 0, 0}, 0)[0], 2 / 3.0f);
}

TEST(Attend, AWindowCountsItsOwnPosition) {
  for (const int window : {1, 2, 31, 32, 33, 64}) {
    const OneSequenceKv kv(4, 1, 4);
    const int position = 100, first = position - window + 1;
    kv.value(first - 1)[0] = 1;  // just outside the window
    kv.value(first)[1] = 1;      // just inside the window
    const std::vector<float> out = attend_one(kv, position, {0, 0, 0, 0}, 0, window);
    EXPECT_EQ(out[0], 0) << window;
    // All scores and the sink have the same value.
    EXPECT_FLOAT_EQ(out[1], 1.0f / static_cast<float>(window + 1)) << window;
  }
}

TEST(Attend, AWindowThatReachesBeforeTheStartIsCut) {
  const OneSequenceKv kv(1, 1, 4);
  kv.value(0)[0] = 1;
  EXPECT_FLOAT_EQ(attend_one(kv, 2, {0, 0, 0, 0}, kNoSink, 128)[0], 1 / 3.0f);
}

TEST(Attend, NeighbouringQueryHeadsShareAKeyValueHeadAndHaveTheirOwnSinks) {
  const OneSequenceKv kv(1, 2, 4);
  kv.value(0, 0)[0] = 1;
  kv.value(0, 1)[0] = 10;
  const std::vector<float> q(4 * 4), sinks{kNoSink, 0, kNoSink, 0};
  const BatchRow rows[]{kv.row(0)};
  const Array<float, 2> out({1, 16});
  attend({View<const float, 3>(q.data(), {1, 4, 4}), rows, kv.layer(), vector_of(sinks), {}, out});
  const float expected[]{1, 0.5f, 10, 5};
  for (int head = 0; head < 4; ++head) EXPECT_FLOAT_EQ(out.view()(0, 4 * head), expected[head]) << head;
}

// Runs the same keys and values with the pages in another order; the first pages were freed.
TEST(Attend, FindsPositionsThroughThePageTableOfItsKind) {
  const OneSequenceKv in_order(4, 1, 4);
  const Array<float, 4> keys({6, 1, kPageTokens, 4}), values({6, 1, kPageTokens, 4});
  const LayerKv shuffled{LayerKind::kSliding, keys, values};
  const std::vector<PageId> pages{PageId{5}, PageId{1}};  // pages of positions 64 to 127
  const std::vector<PageId> wrong_pages{PageId{0}, PageId{0}, PageId{0}, PageId{0}};
  const BatchRow row{.position = 120, .full = {wrong_pages}, .sliding = {pages, 2}};
  for (int position = 64; position <= 120; ++position)
    for (int d = 0; d < 4; ++d) {
      in_order.key(position)[d] = std::sin(static_cast<float>(position + 7 * d));
      in_order.value(position)[d] = std::cos(static_cast<float>(position * d));
      shuffled.key(row, 0, position)[d] = in_order.key(position)[d];
      shuffled.value(row, 0, position)[d] = in_order.value(position)[d];
    }
  const std::vector<float> q{1, 2, 3, 4}, sinks{0.5f};
  const Array<float, 2> out({1, 4});
  attend(
      {View<const float, 3>(q.data(), {1, 1, 4}), std::span(&row, 1), shuffled, vector_of(sinks), 50, out});
  const std::vector<float> expected = attend_one(in_order, 120, q, 0.5f, 50);
  for (int d = 0; d < 4; ++d) EXPECT_EQ(out.view()(0, d), expected[d]) << d;
}

}  // namespace
}  // namespace nibble::reference
