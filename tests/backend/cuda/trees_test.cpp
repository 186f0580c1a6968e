// Tests that trees of drafts give the same attention outputs and the same cache as chains. Needs a GPU, or an
// emulated GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "backend/cuda/attention/args.h"
#include "backend/cuda/attention/keep_drafts.h"
#include "backend/cuda/kernel_table.h"
#include "backend/cuda/prepare.h"
#include "backend/cuda/verify/cache.h"
#include "backend/cuda/verify/values.h"
#include "backend/draft_tree.h"
#include "model/rope.h"
#include "tests/backend/cuda/pretended.h"

namespace nibble::cuda {
namespace {

using verify::AttendCase;
using verify::DeviceArray;
using verify::kHeadDim;

constexpr int kTreeHeads{4}, kTreeKvHeads{2}, kTreeWidth{(kTreeHeads + 2 * kTreeKvHeads) * kHeadDim};

// Rows of q, k and v, concatenated.
using Rows = std::vector<std::vector<float>>;

// A sequence whose cache holds random keys and values before `rows`; append() adds the rows' keys and values.
class TreeSequence {
 public:
  TreeSequence(int first_position, const std::vector<int>& parents, int window, Format kv, const Rows& rows)
      : case_{kTreeHeads, kTreeKvHeads, window, {{first_position, static_cast<int>(rows.size()), parents}}},
        num_rows_(static_cast<int>(rows.size())),
        frequencies_(rope_frequencies(RopeConfig{}, kHeadDim)),
        device_frequencies_(frequencies_.frequencies),
        device_parts_(joined(rows)) {
    case_.kv = kv;
    case_.seed = 7000;
    cache_.emplace(case_);
    cache_->upload();
    check(cudaDeviceSynchronize(), "preparing a test");
    append(gpu(), {input(), device_parts_.data(), false, num_rows_, kTreeHeads, kTreeKvHeads, rope(), pages(),
                   nullptr});
    stream_.wait();
  }

  // Returns the output of attention, [rows, heads * head dim].
  std::vector<uint16_t> attended() const {
    const auto num_heads = static_cast<size_t>(num_rows_) * kTreeKvHeads;
    const DeviceArray<float> sinks(std::vector<float>(kTreeHeads, 0.5f)),
        partials(num_heads * kMaxTreeChunks * kPartialFloats);
    const DeviceArray<unsigned> tickets((std::vector<unsigned>(num_heads)));
    const DeviceArray<uint16_t> out(static_cast<size_t>(num_rows_) * kRowOut);
    check(cudaDeviceSynchronize(), "preparing a test");
    attend_rows(gpu(), num_rows_,
                {input(), device_parts_.data(), false, num_rows_, kTreeHeads, kTreeKvHeads, rope(), pages(),
                 case_.window, sinks.data(), /*writes_kv=*/false, /*first_row=*/0, kMaxTreeChunks,
                 partials.data(), tickets.data(), reinterpret_cast<__nv_bfloat16*>(out.data())});
    stream_.wait();
    verify::Comparison comparison;
    std::vector<uint16_t> bits;
    comparison.at("a tree", [&] { bits = out.read(comparison, "out"); });
    EXPECT_TRUE(comparison.finding().is_right());
    return bits;
  }
  // Returns the key and value of all heads in a slot, in cache layout.
  std::vector<uint16_t> in_slot(const std::vector<uint16_t>& bits, int slot) const {
    std::vector<uint16_t> row;
    for (int head = 0; head < kTreeKvHeads; ++head)
      for (const int which : {0, 1}) {
        const auto first = bits.begin() + static_cast<ptrdiff_t>(cache_->place(0, slot, head, which));
        row.insert(row.end(), first, first + kHeadDim);
      }
    return row;
  }
  void copy_slot(const std::vector<uint16_t>& from, int slot, std::vector<uint16_t>& to) const {
    for (int head = 0; head < kTreeKvHeads; ++head)
      for (const int which : {0, 1}) {
        const auto first = static_cast<ptrdiff_t>(cache_->place(0, slot, head, which));
        std::copy_n(from.begin() + first, kHeadDim, to.begin() + first);
      }
  }
  std::vector<uint16_t> cache_bits() const {
    verify::Comparison comparison;
    std::vector<uint16_t> bits;
    comparison.at("a tree", [&] { bits = cache_->read(comparison); });
    return bits;
  }
  StepInput input() const { return cache_->input(); }
  LayerPages pages() const { return cache_->pages(); }
  LaunchContext gpu() const { return {stream_, this_target()}; }

  static constexpr int kRowOut{kTreeHeads * kHeadDim};

 private:
  static constexpr int kMaxTreeChunks{4};

  static std::vector<float> joined(const Rows& rows) {
    std::vector<float> parts;
    for (const auto& row : rows) parts.insert(parts.end(), row.begin(), row.end());
    return parts;
  }
  RopeInput rope() const { return {device_frequencies_.data(), frequencies_.concentration}; }

  AttendCase case_;
  int num_rows_;
  RopeFrequencies frequencies_;
  DeviceArray<float> device_frequencies_, device_parts_;
  std::optional<verify::TestCache> cache_;
  OwnedStream stream_;
};

// Known tokens, then a tree of drafts. The rows of some drafts have no output.
struct TreeOfTest {
  int first_position, num_known;
  std::vector<int> parents;  // the parent of each draft, as a draft's index; -1: the last known token
  std::vector<int> without_output;

  int num_rows() const { return num_known + static_cast<int>(parents.size()); }
  std::vector<int> run_parents() const {
    std::vector<int> all;
    for (int row = 0; row < num_known; ++row) all.push_back(row - 1);
    for (const int parent : parents) all.push_back(num_known + parent);
    return all;
  }
};

// Returns trees at the start of a page, with branches over 2 or 3 pages, at edges of windows and chunks.
std::vector<TreeOfTest> trees_of_test() {
  const std::vector<int> forks{-1, -1, 0, 1, 1, 3, 4, 6, 6, 8};
  // A fork, then a long chain in one branch, and finally a draft in the other branch.
  std::vector<int> long_ones{-1, -1};
  for (int draft = 2; draft < 60; ++draft) long_ones.push_back(draft == 40 ? 0 : draft - 1);
  return {{0, 1, forks, {3, 8}},
          {32, 1, forks, {}},
          {22, 2, forks, {4}},
          {27, 3, forks, {0}},
          {251, 2, forks, {3, 4}},
          {30, 1, long_ones, {50}},
          {128, 1, {-1, 0, 1, 1, -1}, {}}};
}

Rows random_rows(int num_rows, uint64_t seed) {
  const auto floats =
      verify::random_floats(verify::Values::kTypical, seed, static_cast<size_t>(num_rows) * kTreeWidth);
  Rows rows;
  for (int row = 0; row < num_rows; ++row)
    rows.emplace_back(floats.begin() + ptrdiff_t{row} * kTreeWidth,
                      floats.begin() + ptrdiff_t{row + 1} * kTreeWidth);
  return rows;
}

// Returns the rows on the path to `row`, including it.
std::vector<int> path_to(const std::vector<int>& parents, int row) {
  std::vector<int> path;
  for (; row >= 0; row = parents[static_cast<size_t>(row)]) path.insert(path.begin(), row);
  return path;
}

template <typename F>
void for_each_cache(const F& f) {
  prepare_kernels();
  for (const Format kv : {Format::kBf16, Format::kE4m3})
    for (const int window : {0, 5, 128}) {
      SCOPED_TRACE(testing::Message() << (kv == Format::kBf16 ? "BF16" : "FP8") << ", window " << window);
      f(kv, window);
    }
}

TEST(TreesOnGpu, ARowHasTheBitsThatItHasInAChain) {
  for_each_cache([](Format kv, int window) {
    for (const TreeOfTest& tree : trees_of_test()) {
      const std::vector<int> parents = tree.run_parents();
      const Rows rows = random_rows(tree.num_rows(), 50);
      const std::vector<uint16_t> in_tree =
          TreeSequence(tree.first_position, parents, window, kv, rows).attended();
      for (int leaf = 0; leaf < tree.num_rows(); ++leaf) {
        if (std::count(parents.begin(), parents.end(), leaf)) continue;
        const std::vector<int> path = path_to(parents, leaf);
        Rows chain;
        for (const int row : path) chain.push_back(rows[static_cast<size_t>(row)]);
        const std::vector<uint16_t> alone =
            TreeSequence(tree.first_position, {}, window, kv, chain).attended();
        constexpr auto kRow = static_cast<ptrdiff_t>(TreeSequence::kRowOut);
        for (ptrdiff_t i = 0; i < std::ssize(path); ++i) {
          const int row = path[static_cast<size_t>(i)];
          ASSERT_TRUE(std::equal(alone.begin() + i * kRow, alone.begin() + (i + 1) * kRow,
                                 in_tree.begin() + row * kRow))
              << "row " << row << " of the tree at " << tree.first_position;
        }
      }
    }
  });
}

// For each row of the tree, the test chooses tokens that lead to this row, and then a token that was not
// drafted.
TEST(TreesOnGpu, RightDraftsMoveToWhereAChainHasThem) {
  size_t num_moved = 0, num_without_output = 0;
  for_each_cache([&](Format kv, int window) {
    for (const TreeOfTest& tree : trees_of_test()) {
      const std::vector<int> parents = tree.run_parents();
      const Rows rows = random_rows(tree.num_rows(), 51);
      const auto num_rows = static_cast<size_t>(tree.num_rows());
      std::vector<TokenId> tokens(num_rows);
      for (size_t row = 0; row < num_rows; ++row) tokens[row] = 100 + static_cast<TokenId>(row);
      for (int end = tree.num_known - 1; end < tree.num_rows(); ++end) {
        SCOPED_TRACE(testing::Message() << "to row " << end << " of the tree at " << tree.first_position);
        // The token that each row chooses: for the host in `outputs` and `chosen`, for the device in
        // `output_rows`, `sample` and `results`. The step has other outputs before the outputs of this run.
        constexpr int kFirstRow{0}, kFirstOutput{3};
        const SampleParams greedy;
        std::vector<OutputRow> outputs;
        std::vector<SampledToken> chosen;
        std::vector<int> output_rows(kFirstOutput, -1);
        std::vector<SampleRow> sample(kFirstOutput);
        std::vector<SampleResult> results(kFirstOutput);
        const std::vector<int> path = path_to(parents, end);
        for (int row = 0; row < tree.num_rows(); ++row) {
          const int draft = row - tree.num_known;
          if (std::count(tree.without_output.begin(), tree.without_output.end(), draft)) continue;
          const auto at = std::find(path.begin(), path.end(), row);
          const bool leads = at != path.end() && at + 1 != path.end();
          outputs.push_back({.token_index = row, .sample = &greedy});
          chosen.push_back({.token = leads ? tokens[static_cast<size_t>(at[1])] : 1});
          output_rows.push_back(kFirstRow + row);
          sample.push_back({});
          results.push_back({.token = chosen.back().token, .logprob = 0, .num_top = 0, .top = {}});
        }
        const std::vector<int> expected =
            right_path({.tokens = tokens,
                        .first_position = tree.first_position,
                        .outputs = outputs,
                        .drafted = {.count = static_cast<int>(tree.parents.size()), .parents = parents}},
                       chosen);
        num_without_output += expected.back() != end;

        // `sequence` and `other` are two layers with the same page ids, each in its own cache.
        const TreeSequence sequence(tree.first_position, parents, window, kv, rows),
            other(tree.first_position, parents, window, kv, rows);
        const std::vector<uint16_t> before = sequence.cache_bits();
        std::vector<RowInput> with_tokens(num_rows);
        check(cudaMemcpy(with_tokens.data(), sequence.input().rows, num_rows * sizeof(RowInput),
                         cudaMemcpyDeviceToHost),
              "reading");
        for (size_t row = 0; row < num_rows; ++row) with_tokens[row].token = TokenInput::of(tokens[row]);
        const DeviceArray<RowInput> device_rows(with_tokens);
        const DeviceArray<int> device_parents(parents), device_output_rows(output_rows);
        const DeviceArray<SampleRow> device_sample(sample);
        const DeviceArray<SampleResult> device_results(results);
        const DeviceArray<DraftRun> runs(
            // The first run has no rows.
            std::vector<DraftRun>{{},
                                  {kFirstRow, tree.num_rows(), static_cast<int>(tree.parents.size()), -1,
                                   kFirstOutput, static_cast<int>(outputs.size()), -1, true}});
        const DeviceArray<LayerPages> layers(std::vector<LayerPages>{sequence.pages(), other.pages()});
        const DeviceArray<uint32_t> step(std::vector<uint32_t>{5});
        PinnedBuffer kept[2]{PinnedBuffer(num_rows * sizeof(int32_t)),
                             PinnedBuffer(num_rows * sizeof(int32_t))};
        StepExchange exchange;
        for (const int turn : {0, 1}) exchange.kept[turn] = kept[turn].as<int32_t>();
        StepInput input = sequence.input();
        input.rows = device_rows.data();
        check(cudaDeviceSynchronize(), "preparing a test");
        keep_drafts(sequence.gpu(), /*num_runs=*/2, /*num_layers=*/2,
                    {runs.data(),
                     {input.rows, device_parents.data(), device_output_rows.data(), device_sample.data(),
                      device_results.data()},
                     input,
                     layers.data(),
                     kTreeKvHeads,
                     step.data(),
                     exchange});
        check(cudaStreamSynchronize(sequence.gpu().stream), "keeping drafts");

        std::vector<int> found{tree.num_known - 1};
        while (found.size() <= expected.size() && exchange.kept[1][found.back()] >= 0)
          found.push_back(exchange.kept[1][found.back()]);
        ASSERT_EQ(found, expected);
        Rows chain;
        for (const int row : path_to(parents, expected.back()))
          chain.push_back(rows[static_cast<size_t>(row)]);
        const TreeSequence alone(tree.first_position, {}, window, kv, chain);
        const std::vector<uint16_t> as_chain = alone.cache_bits();
        for (const TreeSequence* layer : {&sequence, &other}) {
          const std::vector<uint16_t> after = layer->cache_bits();
          // Restores the moved rows in a copy of the cache. The copy must then equal the cache before moving.
          std::vector<uint16_t> undone = after;
          for (int i = 0; i < static_cast<int>(chain.size()); ++i) {
            const int slot = tree.first_position + i;
            ASSERT_EQ(layer->in_slot(after, slot), alone.in_slot(as_chain, slot)) << "slot " << slot;
            num_moved += layer->in_slot(after, slot) != layer->in_slot(before, slot);
            layer->copy_slot(before, slot, undone);
          }
          ASSERT_EQ(undone, before);
        }
      }
    }
  });
  EXPECT_GT(num_moved, 1000u);
  EXPECT_GT(num_without_output, 10u);
}

}  // namespace
}  // namespace nibble::cuda
