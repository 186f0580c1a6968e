// Compares attention with the reference, and the bits of different batches with each other, for the kernels
// of every instruction set that this machine supports.
#include "backend/cpu/attention/attend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reference/array.h"
#include "reference/attend.h"
#include "tests/backend/cpu/operations.h"
#include "tests/ops/shapes.h"

namespace nibble::cpu {
namespace {

using reference::Array;

constexpr Format kKvFormats[]{Format::kBf16, Format::kE4m3};

// Several sequences of different lengths. Each has `num_rows` rows, at its last positions. Consecutive pages
// belong to different sequences.
struct Sequences {
  Sequences(int num_sequences, int length, int num_rows) : pages(num_sequences) {
    uint32_t next = 0;
    for (int s = 0; s < num_sequences; ++s) lengths.push_back(std::max(1, length - 37 * s));
    for (int page = 0; page * kPageTokens < length; ++page)
      for (int s = 0; s < num_sequences; ++s)
        if (page * kPageTokens < lengths[s]) pages[s].push_back(PageId{next++});
    num_pages = static_cast<int>(next);
    for (int s = 0; s < num_sequences; ++s) {
      const int count = std::min(num_rows, lengths[s]);
      tokens.resize(std::max(tokens.size(), size_t{1} * count));
      runs.push_back({.tokens = {tokens.data(), size_t{1} * count},
                      .first_position = lengths[s] - count,
                      .full = {pages[s]},
                      .sliding = {pages[s]},
                      .outputs = {}});
    }
    // The vectors no longer grow, so spans into them stay valid.
    for (Run& run : runs) run.tokens = {tokens.data(), run.tokens.size()};
  }
  std::vector<int> lengths;
  std::vector<std::vector<PageId>> pages;
  std::vector<TokenId> tokens;
  std::vector<Run> runs;
  int num_pages{0};
};

// Queries, sinks, and the same random keys and values in the caches of the reference and of the CPU backend.
// The slots after the last position hold poison. Keeps a reference to `sequences`.
class Attention {
 public:
  Attention(const Config& config, Format kv_format, const Sequences& sequences)
      : config_(config),
        batch_{.runs = sequences.runs},
        rows_(rows_of(batch_)),
        kv_cache_(config, kv_format, sequences.num_pages),
        reference_cache_(config, sequences.num_pages),
        q_(random_floats(rows_.size() * config.num_heads * config.head_dim, 22)),
        split_q_(in_split_order(q_, config.head_dim)),
        sinks_(random_floats(config.num_heads, 23)) {
    const LayerKv& kv = kv_cache_.layer(0);
    const reference::LayerKv& reference_kv = reference_cache_.layer(0);
    const auto reference_rows = reference::rows_of(batch_);
    uint64_t counter = 0;
    ptrdiff_t row = 0;
    for (const Run& run : sequences.runs) {
      const int length = run.first_position + static_cast<int>(run.tokens.size());
      for (int position = 0; position < std::ssize(run.full.pages) * kPageTokens; ++position)
        for (int head = 0; head < config.num_kv_heads; ++head)
          for (const bool is_key : {true, false}) {
            std::vector<float> elements(config.head_dim, kPoison);
            if (position < length)
              for (float& element : elements)
                element = static_cast<float>(2 * random_unit(21, counter++) - 1);
            std::byte* page =
                is_key ? kv.keys(run.full, position, head) : kv.values(run.full, position, head);
            kv.store(elements.data(), page, position);
            float* to = is_key ? reference_kv.key(reference_rows[row], head, position)
                               : reference_kv.value(reference_rows[row], head, position);
            for (int d = 0; d < config.head_dim; ++d) to[d] = element_of(kv, page, position, d);
          }
      row += std::ssize(run.tokens);
    }
    // Scores are about 0, so a sink of log n has the same weight as n positions together. At this weight, the
    // tests detect a missing or doubled sink.
    for (float& sink : sinks_) sink += std::log(static_cast<float>(rows_.back().position + 1));
  }

  ptrdiff_t num_rows() const { return std::ssize(rows_); }
  int position(ptrdiff_t t) const { return rows_[t].position; }

  // Runs rows [first, first + count) in one step and returns the result in natural order. `parts`: number of
  // pieces that the scratch memory holds. The memory is poisoned first.
  Array<float, 2> attended(const Machine& machine, std::optional<int> window, ptrdiff_t first,
                           ptrdiff_t count, ptrdiff_t parts) {
    const ptrdiff_t width = ptrdiff_t{1} * config_.num_heads * config_.head_dim,
                    head_width = padded(config_.head_dim);
    std::vector<float> out(count * padded(width), kPoison);
    parts_.assign(parts * config_.num_heads * (2 + head_width), kPoison);
    const float* q = split_q_.data() + first * config_.num_heads * head_width;
    attend({machine, View<const float, 3>(q, {count, config_.num_heads, head_width}),
            std::span(rows_).subspan(first, count), kv_cache_.layer(0), vector_of(sinks_), window,
            View<float, 3>(parts_.data(), {parts, config_.num_heads, 2 + head_width}),
            View<float, 2>(out.data(), {count, padded(width)})});
    return in_natural_order(rows_view(out, count), count, width);
  }
  bool used_parts() const {
    return std::any_of(parts_.begin(), parts_.end(), [](float x) { return !std::isnan(x); });
  }

  Array<float, 2> reference_attended(std::optional<int> window) const {
    Array<float, 2> expected({num_rows(), ptrdiff_t{1} * config_.num_heads * config_.head_dim});
    reference::attend({View<const float, 3>(q_.data(), {num_rows(), config_.num_heads, config_.head_dim}),
                       reference::rows_of(batch_), reference_cache_.layer(0), vector_of(sinks_), window,
                       expected});
    return expected;
  }

 private:
  Config config_;
  Batch batch_;
  std::vector<BatchRow> rows_;
  KvCache kv_cache_;
  reference::KvCache reference_cache_;
  std::vector<float> q_, split_q_, sinks_, parts_;
};

void expect_attention(const Machine& machine, const Config& config, Format kv_format,
                      const Sequences& sequences, std::optional<int> window) {
  Attention attention(config, kv_format, sequences);
  const Array<float, 2> actual = attention.attended(machine, window, 0, attention.num_rows(), kParts),
                        expected = attention.reference_attended(window);
  // Weights sum to at most 1 and |v| <= 1. The error of scores is 2 (D / 4 + 6) 2^-24 |q . k| / 8 < 2e-5,
  // which is also the relative error of a weight. Adding n positions in turn has an error of n 2^-24 < 6e-5
  // for n <= 1000. The pieces of longer sequences have half of that error, and adding up to three pieces adds
  // 8 2^-24 for each.
  for (ptrdiff_t t = 0; t < attention.num_rows(); ++t)
    for (ptrdiff_t i = 0; i < expected.view().shape[1]; ++i)
      ASSERT_NEAR(actual.view()(t, i), expected.view()(t, i), 1e-4)
          << "row " << t << " at position " << attention.position(t) << ", element " << i << ", window "
          << window.value_or(-1) << ", " << sequences.runs.size() << " sequences, "
          << machine.pool.num_threads() << " threads";
}

class Attend : public testing::TestWithParam<Isa> {
 protected:
  ThreadPool one_{1}, two_{2}, three_{3};
  const Machine machine_{choose_kernels(GetParam()), two_};
};
INSTANTIATE_TEST_SUITE_P(, Attend, testing::ValuesIn(isas_of_their_own()), name_of);

TEST_P(Attend, SeesEachWindow) {
  for (const Config& config : kConfigs)
    for (const int window : shapes::kWindows)
      for (const Format kv : kKvFormats)
        expect_attention(machine_, config, kv, Sequences(1, 200, 70), window);
}

TEST_P(Attend, SeesAllOfASequenceOfAnyLength) {
  for (const Config& config : kConfigs)
    for (const int length : shapes::kTokens)
      for (const Format kv : kKvFormats)
        expect_attention(machine_, config, kv, Sequences(1, length, 5), std::nullopt);
}

TEST_P(Attend, KeepsSequencesApart) {
  for (const int num_sequences : shapes::kNumSequences)
    for (const int num_rows : {1, 33})
      for (const std::optional<int> window : {std::optional<int>(100), std::optional<int>()})
        for (const Format kv : kKvFormats)
          expect_attention(machine_, kConfigs[0], kv, Sequences(num_sequences, 300, num_rows), window);
}

// Covers lengths just below, at and just above multiples of a piece, and windows that begin inside a piece.
TEST_P(Attend, AddsThePiecesOfALongRow) {
  for (const Config& config : kConfigs)
    for (const Format kv : kKvFormats)
      for (const int length : {kPiecePositions, kPiecePositions + 1, 2 * kPiecePositions, 1200})
        for (const std::optional<int> window :
             {std::optional<int>(), std::optional<int>(kPiecePositions), std::optional<int>(700)})
          for (ThreadPool* pool : {&one_, &three_})
            for (const int num_rows : {1, 5})
              expect_attention({machine_.kernels, *pool}, config, kv, Sequences(1, length, num_rows), window);
}

// 40 rows of each of two sequences are enough work items for all threads, so no row is divided. A single row
// is too little work for them, so each of its pieces becomes a work item.
TEST_P(Attend, GivesALongRowTheSameBitsInPiecesAsWhole) {
  for (const Config& config : kConfigs)
    for (const std::optional<int> window : {std::optional<int>(), std::optional<int>(700)}) {
      const Sequences sequences(2, 1100, 40);
      Attention attention(config, Format::kBf16, sequences);
      const Array<float, 2> together = attention.attended(machine_, window, 0, attention.num_rows(), kParts);
      EXPECT_FALSE(attention.used_parts());
      const ptrdiff_t width = together.view().shape[1];
      for (const ptrdiff_t t : {0, 1, 17, 39, 40, 79}) {
        const auto expect_the_same = [&](ThreadPool& pool, ptrdiff_t parts, bool in_parts) {
          const Array<float, 2> alone = attention.attended({machine_.kernels, pool}, window, t, 1, parts);
          EXPECT_EQ(attention.used_parts(), in_parts) << pool.num_threads() << " threads";
          EXPECT_TRUE(std::equal(alone.view().row(0), alone.view().row(0) + width, together.view().row(t)))
              << "position " << attention.position(t) << ", " << pool.num_threads() << " threads, room for "
              << parts << " pieces";
        };
        ThreadPool eight(8);
        expect_the_same(eight, kParts, true);
        expect_the_same(three_, kParts, true);
        expect_the_same(three_, 1, false);  // without room for parts, the row is not divided
        expect_the_same(one_, kParts, false);
      }
    }
}

}  // namespace
}  // namespace nibble::cpu
