// Tests which pages qkv() prefetches into L2 for the attention that follows. Prefetches change no result and
// a real GPU does not report them; the emulated GPU does.
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "backend/cuda/attention/args.h"
#include "backend/cuda/chip/device.h"
#include "backend/cuda/dense/args.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/prepare.h"
#include "backend/cuda/verify/matrix.h"
#include "tests/backend/cuda/emulated/emulated_gpu.h"
#include "tests/backend/cuda/pretended.h"

namespace nibble::cuda {
namespace {

constexpr int kPageBytes{64}, kPagesOfRow{40}, kMaxPages{3};

// Returns the id of page p of a row. The pages of a row are in reverse order, so not consecutive.
uint32_t id_of(int row, int page) { return static_cast<uint32_t>(2 * (kPagesOfRow - 1 - page) + row); }

// Runs qkv() on rows at these positions. Returns the number of prefetches of each page.
std::map<uint32_t, int> pages_asked_for(const std::vector<int>& positions) {
  constexpr int kHidden{96}, kRows{256};
  const auto num_rows = static_cast<int>(positions.size());
  const OwnedStream stream;
  prepare_kernels();
  const verify::TestMatrix matrix(stream, Format::kBf16, verify::Origin::kQuantised, {kRows, kHidden},
                                  {verify::Values::kTypical, 7});
  const std::vector<float> x(static_cast<size_t>(num_rows) * kHidden, 1), norm(kHidden, 1);
  std::vector<float> parts(2 * static_cast<size_t>(num_rows) * kRows);
  std::vector<RowInput> rows;
  std::vector<uint32_t> ids;
  for (int row = 0; row < num_rows; ++row) {
    rows.push_back(
        {TokenInput::of(0), positions[static_cast<size_t>(row)], static_cast<uint32_t>(ids.size()), 0});
    for (int page = 0; page < kPagesOfRow; ++page) ids.push_back(id_of(row, page));
  }
  std::vector<uint8_t> pages(2 * kPagesOfRow * kPageBytes);
  QkvArgs args{};
  args.norm.residual.x = x.data();
  args.norm.residual.hidden = kHidden;
  args.norm.weights = norm.data();
  args.norm.eps = 1e-5f;
  args.weights = matrix.strips();
  args.num_tokens = num_rows;
  args.parts = parts.data();
  args.ahead = {
      {rows.data(), nullptr, ids.data()}, {pages.data(), 0, KvFormat::kBf16}, kPageBytes, kMaxPages};
  std::map<uint32_t, int> asked;
  std::mutex mutex;
  emulated::on_prefetch = [&](const void* from, int num_bytes) {
    const std::lock_guard lock(mutex);
    const auto at = static_cast<const uint8_t*>(from) - pages.data();
    EXPECT_EQ(num_bytes, kPageBytes);
    EXPECT_EQ(at % kPageBytes, 0);
    ++asked[static_cast<uint32_t>(at / kPageBytes)];
  };
  qkv({stream, this_target()}, args);
  emulated::on_prefetch = nullptr;
  return asked;
}

TEST(PagesAhead, AreTheLastOfALongRowEachOnce) {
  EXPECT_EQ(pages_asked_for({1000}),
            (std::map<uint32_t, int>{{id_of(0, 31), 1}, {id_of(0, 30), 1}, {id_of(0, 29), 1}}));
}

TEST(PagesAhead, AreNoneOfARowThatAttentionTakesInOneChunk) {
  EXPECT_TRUE(pages_asked_for({kChunkPages * kPagePositions - 1}).empty());
  EXPECT_EQ(pages_asked_for({kChunkPages * kPagePositions}).size(), size_t{kMaxPages});
}

TEST(PagesAhead, AreEachRowsOwn) {
  EXPECT_EQ(pages_asked_for({100, 600}),
            (std::map<uint32_t, int>{{id_of(1, 18), 1}, {id_of(1, 17), 1}, {id_of(1, 16), 1}}));
  EXPECT_EQ(pages_asked_for({600, 601}).size(), size_t{2 * kMaxPages});
}

}  // namespace
}  // namespace nibble::cuda
