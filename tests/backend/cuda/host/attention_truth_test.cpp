// Tests attention_truth.h, the host loops against which CUDA attention kernels are checked: compares them
// with the reference backend. Needs no GPU.
#include "backend/cuda/verify/attention_truth.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "reference/array.h"
#include "reference/attend.h"
#include "reference/rope.h"

namespace nibble::cuda::verify {
namespace {

using reference::Array;
using reference::BatchRow;

constexpr ptrdiff_t kPageElements{kPagePositions * kHeadDim};

AttendCase case_of(int window, float sink) {
  return {.num_heads = 6,
          .num_kv_heads = 3,
          .window = window,
          .runs = {{0, 70}, {300, 20}},
          .sink = sink,
          .seed = 5};
}

struct Inputs {
  explicit Inputs(const AttendCase& attend_case)
      : c(attend_case),
        cache(c),
        parts(random_floats(c.values, 1, static_cast<size_t>(2 * c.num_tokens() * c.width()))),
        rotated(rotated_rows(c, cache.rows(), parts, rope_frequencies(RopeConfig{}, kHeadDim))) {
    rotated.put_into(cache);
  }
  float joined(size_t row, int i) const {
    const size_t at = row * static_cast<size_t>(c.width()) + static_cast<size_t>(i);
    return parts[at] + parts[parts.size() / 2 + at];
  }

  AttendCase c;
  TestCache cache;
  std::vector<float> parts;
  RotatedRows rotated;
};

// Page tables for the reference, made from the places at which the test cache stores each position.
struct ReferenceCache {
  explicit ReferenceCache(const Inputs& in) {
    const ptrdiff_t heads = in.c.num_kv_heads, page = 2 * heads * kPageElements;
    for (const uint16_t bits : in.cache.bits()) elements.push_back(float_of(bits));
    const auto view_of = [&](ptrdiff_t first) {
      View<float, 4> view(elements.data() + first,
                          {std::ssize(elements) / page, heads, kPagePositions, kHeadDim});
      view.stride[0] = page;
      return view;
    };
    kv = {LayerKind::kFull, view_of(0), view_of(heads * kPageElements)};
    for (const CacheRow& row : in.cache.rows()) {
      std::vector<PageId>& ids = pages.emplace_back();
      const int first = in.c.window ? std::max(0, row.position - in.c.window + 1) : 0;
      for (int p = first / kPagePositions; p <= row.position / kPagePositions; ++p)
        ids.push_back(PageId{static_cast<uint32_t>(
            in.cache.place(row.run, std::max(first, p * kPagePositions), 0, 0) / static_cast<size_t>(page))});
    }
    for (size_t row = 0; row < pages.size(); ++row) {
      const int position = in.cache.rows()[row].position;
      const int first_page = position / kPagePositions + 1 - static_cast<int>(pages[row].size());
      rows.push_back({.position = position, .full = {pages[row], first_page}});
    }
  }

  std::vector<float> elements;
  reference::LayerKv kv;
  std::vector<std::vector<PageId>> pages;
  std::vector<BatchRow> rows;
};

TEST(AttentionTruth, RowsTurnAsTheReferenceTurnsThem) {
  const Inputs in(case_of(0, 0));
  const int heads = in.c.num_heads + in.c.num_kv_heads;  // queries and keys
  const Array<float, 3> x({in.c.num_tokens(), heads, kHeadDim});
  std::vector<int> positions;
  for (size_t row = 0; row < in.cache.rows().size(); ++row) {
    positions.push_back(in.cache.rows()[row].position);
    for (int i = 0; i < heads * kHeadDim; ++i)
      x.view().row(static_cast<ptrdiff_t>(row), 0)[i] = in.joined(row, i);
  }
  reference::rotate({x, positions, reference::make_rope_table(RopeConfig{}, kHeadDim)});
  for (size_t row = 0; row < positions.size(); ++row)
    for (int i = 0; i < heads * kHeadDim; ++i) {
      const Rounded& rotated = in.rotated.query(row, 0)[i];  // heads of keys follow heads of queries
      const double factor = i < in.c.num_heads * kHeadDim ? kQueryFactor : 1;
      ASSERT_NEAR(rotated.number, factor * x.view().row(static_cast<ptrdiff_t>(row), 0)[i], rotated.error)
          << "row " << row << ", element " << i;
    }
}

// The kernel rounds each probability to bfloat16, a relative error of at most 2^-9. So the sum may be off by
// 2^-9 of the largest value. The reference's float32 adds less than 2^-20.
TEST(AttentionTruth, SinksAndWindowsMeanWhatTheReferenceMeans) {
  for (const int window : {0, 1, 33, 128})
    for (const float sink : {-10.0f, 0.5f, 8.0f}) {
      const Inputs in(case_of(window, sink));
      ReferenceCache reference_cache(in);
      std::vector<float> sinks(static_cast<size_t>(in.c.num_heads));
      for (size_t head = 0; head < sinks.size(); ++head) sinks[head] = sink + 0.1f * static_cast<float>(head);
      const Array<float, 3> q({in.c.num_tokens(), in.c.num_heads, kHeadDim});
      for (int row = 0; row < in.c.num_tokens(); ++row)
        for (int i = 0; i < in.c.num_heads * kHeadDim; ++i)
          q.view().row(row, 0)[i] = static_cast<float>(
              double{in.rotated.query(static_cast<size_t>(row), 0)[i].value} / kQueryFactor);
      const Array<float, 2> expected({in.c.num_tokens(), in.c.num_heads * kHeadDim});
      reference::attend({q,
                         reference_cache.rows,
                         reference_cache.kv,
                         {sinks.data(), Format::kF32, in.c.num_heads},
                         window ? std::optional(window) : std::nullopt,
                         expected});
      const std::vector<Attended> actual = attended(in.c, in.cache, in.rotated, sinks);
      for (size_t i = 0; i < actual.size(); ++i)
        ASSERT_NEAR(actual[i].value, expected.view().data[i], 2 * (0x1p-9 + 0x1p-20))  // values are below 2
            << "window " << window << ", sink " << sink << ", element " << i;
    }
}

}  // namespace
}  // namespace nibble::cuda::verify
