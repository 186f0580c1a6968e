// Compares draft heads in the three public formats with golden data of another implementation (NumPy,
// float32, one slot at a time): both the head alone, and the head in the reference backend.
#include "reference/draft_head.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/draft_chain.h"
#include "kv/page_pool.h"
#include "kv/page_table.h"
#include "reference/reference_backend.h"
#include "tests/backend/draft_golden.h"

namespace nibble::reference {
namespace {

// Twice the largest difference of a logit between two float32 implementations of the head: the golden one in
// NumPy, and one in PyTorch (2.3e-5, tests/golden/README.md). The reference rounds less than both.
constexpr float kHeadTolerance{4.6e-5f};
constexpr int kNumPages{kPagesOfRounds}, kDepth{kDraftDepth};

class DraftHeads : public testing::TestWithParam<HeadGolden> {
 protected:
  template <typename T>
  std::span<const T> tensor(const std::string& name) const {
    return golden_.tensor<T>(name);
  }

  static void expect_near(std::span<const float> golden, const float* found, const std::string& what) {
    float furthest = 0;
    for (size_t i = 0; i < golden.size(); ++i) furthest = std::max(furthest, std::abs(golden[i] - found[i]));
    EXPECT_LE(furthest, kHeadTolerance) << what;
  }

  const std::shared_ptr<const DraftHead> head_ = open_golden_head(GetParam());
  const HeadGoldenData golden_{GetParam()};
};

TEST_P(DraftHeads, ComputesTheGoldenFeaturesSlotsOutputsAndLogits) {
  const DraftHead head = with_parts_of(*model_of_heads(), *head_);
  const DraftHeadConfig& config = head.config;
  const std::string name = "prose33.";
  const auto ids = tensor<int32_t>(name + "ids"), greedy = tensor<int32_t>(name + "greedy");
  const auto taps = tensor<float>(name + "taps");
  const auto num_slots = std::ssize(ids);
  PagePool pool(kNumPages);
  SequencePages pages(pool, 128);
  ASSERT_TRUE(pages.reserve(static_cast<int>(num_slots) + kDepth));
  const KvCache kv(draft_cache_config(config), kNumPages);
  const RopeTable rope{.frequencies = rope_frequencies(config).frequencies, .concentration = 1};

  Array<float, 2> features({num_slots, config.hidden});
  join_features(
      {head, View<const float, 2>(taps.data(), {num_slots, std::ssize(taps) / num_slots}), features});
  const auto last_features = tensor<float>(name + "features");
  expect_near(last_features, features.view().row(num_slots - 8), "features");

  std::vector<BatchRow> rows;
  for (int t = 0; t < num_slots; ++t)
    rows.push_back({t + 1 < num_slots ? ids[static_cast<size_t>(t) + 1] : greedy[0], t, pages.full(), {}});
  Array<float, 2> out({1, config.hidden});
  const std::vector<int> last{static_cast<int>(num_slots) - 1};
  draft_layer({head, rope, features, rows, last, kv.layer(0), out});
  const auto keys = tensor<float>(name + "keys"), values = tensor<float>(name + "values");
  const auto head_dim = static_cast<size_t>(config.head_dim);
  for (int slot = 0; slot < 8; ++slot)
    for (int n = 0; n < config.num_kv_heads; ++n) {
      const BatchRow& row = rows[static_cast<size_t>(num_slots) - 8 + static_cast<size_t>(slot)];
      const size_t first = static_cast<size_t>(slot * config.num_kv_heads + n) * head_dim;
      expect_near(keys.subspan(first, head_dim), kv.layer(0).key(row, n, row.position), "keys");
      expect_near(values.subspan(first, head_dim), kv.layer(0).value(row, n, row.position), "values");
    }

  const auto logits = tensor<float>(name + "logits"), outputs = tensor<float>(name + "outputs");
  const auto drafts = tensor<int32_t>(name + "draft_ids");
  for (int step = 0; step < kDepth; ++step) {
    const auto place = static_cast<size_t>(step);
    const Array<float, 2> normed({1, config.hidden}), found({1, config.draft_vocab});
    draft_logits({head, out, normed, found});
    const auto hidden = static_cast<size_t>(config.hidden), vocab = static_cast<size_t>(config.draft_vocab);
    expect_near(outputs.subspan(place * hidden, hidden), out.view().row(0), "outputs");
    expect_near(logits.subspan(place * vocab, vocab), found.view().row(0), "logits");
    const float* row = found.view().row(0);
    const TokenId token = head.tokens[static_cast<size_t>(std::max_element(row, row + vocab) - row)];
    EXPECT_EQ(token, drafts[place]);
    const Array<float, 2> before = std::move(out);
    out = Array<float, 2>({1, config.hidden});
    const std::vector<BatchRow> next{{token, static_cast<int>(num_slots) + step, pages.full(), {}}};
    draft_layer({head, rope, before, next, std::vector<int>{0}, kv.layer(0), out});
  }
}

TEST_P(DraftHeads, DraftAndAreAcceptedAsInTheGoldenRounds) {
  for (const std::string& name : golden_.prompts()) {
    SCOPED_TRACE(name);
    const auto ids = tensor<int32_t>(name + ".ids"), greedy = tensor<int32_t>(name + ".greedy");
    const auto golden = tensor<int32_t>(name + ".chain_drafts"),
               accepted = tensor<int32_t>(name + ".chain_accepted");
    const auto gaps = tensor<float>(name + ".chain_gaps");
    const std::unique_ptr<Backend> backend =
        make(model_of_heads(), {.num_pages = kNumPages, .draft_head = head_});
    const DraftRounds run =
        run_draft_rounds(*backend, ids, static_cast<int>(greedy.size()), kDepth, kNumPages);
    ASSERT_EQ(run.rounds.size(), accepted.size());
    for (size_t round = 0; round < accepted.size(); ++round) {
      const DraftRound& found = run.rounds[round];
      ASSERT_EQ(found.drafts.size(), kDepth);
      for (size_t place = 0; place < kDepth; ++place) {
        EXPECT_EQ(found.drafts[place].token, golden[round * kDepth + place])
            << "round " << round << ", whose best token leads by " << gaps[round * kDepth + place];
        EXPECT_TRUE(found.drafts[place].probability > 0 && found.drafts[place].probability <= 1);
      }
      EXPECT_EQ(found.num_right, accepted[round]) << "round " << round;
    }
    EXPECT_TRUE(std::equal(greedy.begin(), greedy.end(), run.answer.begin()));
  }
}

TEST_P(DraftHeads, DraftAfterATreeAsAfterAPrompt) {
  const auto make_backend = [&] {
    return make(model_of_heads(), {.num_pages = kNumPages, .draft_head = head_});
  };
  int num_others_right = 0;
  for (const std::string& name : golden_.prompts()) {
    expect_drafts_behind_trees_as_behind_prompts(*make_backend(), *make_backend(),
                                                 tensor<int32_t>(name + ".ids"), 60, 2, 3, kNumPages,
                                                 num_others_right);
    if (num_others_right > 0) return;
  }
  FAIL() << "no draft was right that is not the first for its place";
}

INSTANTIATE_TEST_SUITE_P(, DraftHeads, testing::ValuesIn(kHeadGoldens),
                         [](const auto& info) { return std::string(info.param.head); });

}  // namespace
}  // namespace nibble::reference
