// Tests of adapters that requests choose (Run::adapter), which every backend that takes them instantiates.
// The truth is the reference's forward pass of a model whose matrices were merged here, in double precision.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "reference/forward.h"
#include "reference/weight_row.h"
#include "tests/backend/feeder.h"
#include "tests/backend/fulfilment.h"
#include "tests/backend/random_adapters.h"

namespace nibble {

struct AdapterBackend {
  std::string name;
  std::function<std::unique_ptr<Backend>(std::shared_ptr<const Weights>,
                                         std::shared_ptr<const RequestAdapters>)>
      make;
  reference::Rounding rounding{};  // of keys and values, on this backend
  double tolerance{0};             // allowed relative error of a row of logits
  // Part of the rows that may exceed the tolerance. If activations are rounded, the routers of a random model
  // sooner or later choose other experts than the reference.
  double share_of_ties{0};
};

inline void PrintTo(const AdapterBackend& backend, std::ostream* to) { *to << backend.name; }

// A model with an adapter merged into its matrices. The changed matrices are float32.
struct MergedModel {
  MergedModel(const Weights& base, const RequestAdapter& adapter) : weights(base) {
    for (size_t n = 0; n < weights.layers.size(); ++n) {
      LayerWeights& layer = weights.layers[n];
      const LayerUpdates& updates = adapter.layers[n];
      merge(layer.q, updates.q);
      merge(layer.k, updates.k);
      merge(layer.v, updates.v);
      merge(layer.o, updates.o);
      merge(layer.router, updates.router);
    }
    merge(weights.unembedding, adapter.unembedding);
  }

  Weights weights;

 private:
  void merge(Matrix& matrix, const std::optional<DenseUpdate>& update) {
    if (!update) return;
    std::vector<float>& values = storage_.emplace_back(static_cast<size_t>(matrix.rows * matrix.cols));
    for (int r = 0; r < matrix.rows; ++r) {
      float* row = &values[static_cast<size_t>(r * matrix.cols)];
      reference::decode_row(matrix, r, row);
      for (int c = 0; c < matrix.cols; ++c) {
        double sum = row[c];
        for (int k = 0; k < update->rank; ++k)
          sum += double{update->b[static_cast<size_t>(r * update->rank + k)]} *
                 double{update->a[static_cast<size_t>(k * matrix.cols + c)]};
        row[c] = static_cast<float>(sum);
      }
    }
    matrix.stored = Elements{.format = Format::kF32, .data = values.data()};
  }
  std::deque<std::vector<float>> storage_;
};

// Returns the logits [T, V] of all positions, computed by the reference backend.
inline std::vector<float> reference_logits(const Weights& weights, std::span<const TokenId> ids,
                                           const reference::Rounding& rounding) {
  const auto num_pages = ids.size() / kPageTokens + 1;
  std::vector<PageId> pages;
  for (uint32_t page = 0; page < 2 * num_pages; ++page) pages.push_back(PageId{page});
  std::vector<reference::BatchRow> rows;
  for (const TokenId id : ids)
    rows.push_back({id,
                    static_cast<int>(rows.size()),
                    {std::span(pages).first(num_pages)},
                    {std::span(pages).last(num_pages)}});
  std::vector<int> outputs(ids.size());
  std::iota(outputs.begin(), outputs.end(), 0);
  const Config& config = weights.config;
  reference::KvCache kv(config, static_cast<int>(pages.size()));
  std::vector<float> logits(ids.size() * static_cast<size_t>(config.vocab));
  reference::forward({.weights = weights,
                      .rope = reference::make_rope_table(config.rope, config.head_dim),
                      .rows = rows,
                      .outputs = outputs,
                      .kv = kv,
                      .logits = {logits.data(), {std::ssize(ids), config.vocab}},
                      .rounding = rounding});
  return logits;
}

// Returns the largest |a - b| / |b| of a row, apart from a share of the rows.
inline double worst_row(std::span<const float> a, std::span<const float> b, size_t vocab,
                        double share_of_ties) {
  std::vector<double> errors;
  for (size_t first = 0; first < b.size(); first += vocab) {
    double error = 0, norm = 0;
    for (size_t i = first; i < first + vocab; ++i) {
      error += std::pow(double{a[i]} - double{b[i]}, 2);
      norm += std::pow(double{b[i]}, 2);
    }
    const double relative = std::sqrt(error / norm);
    if (std::isnan(relative)) return relative;
    errors.push_back(relative);
  }
  std::ranges::sort(errors);
  return errors[static_cast<size_t>((1 - share_of_ties) * static_cast<double>(errors.size() - 1))];
}

class BackendAdapters : public testing::TestWithParam<AdapterBackend> {
 protected:
  const std::shared_ptr<const Weights> weights_ = open_shared("tests/golden/random/a");
  const std::shared_ptr<const RequestAdapters> adapters_ =
      std::make_shared<const RequestAdapters>(three_adapters(*weights_));

  Feeder feeder() const { return Feeder(GetParam().make(weights_, adapters_), Fulfilment::kNumPages); }
  std::vector<TokenId> ids(int count, uint64_t seed) const {
    return random_ids(count, weights_->config.vocab, seed);
  }
  std::vector<float> logits_alone(const std::vector<TokenId>& ids, std::optional<AdapterId> adapter) const {
    Feeder alone = feeder();
    alone.feed({{0, ids, adapter}});
    return alone.logits(0);
  }
  double worst_row(std::span<const float> a, std::span<const float> b) const {
    return nibble::worst_row(a, b, static_cast<size_t>(weights_->config.vocab), GetParam().share_of_ties);
  }
  // Compares a sequence's logits with those of the merged model, which must differ from those of the model.
  void expect_merged(std::span<const float> logits, const std::vector<TokenId>& ids,
                     const RequestAdapter& adapter, const std::string& what) const {
    const double tolerance = GetParam().tolerance;
    const MergedModel merged(*weights_, adapter);
    const std::vector<float> expected = reference_logits(merged.weights, ids, GetParam().rounding);
    EXPECT_LT(worst_row(logits, expected), tolerance) << what;
    EXPECT_GT(worst_row(reference_logits(*weights_, ids, GetParam().rounding), expected), 3 * tolerance)
        << what << ": changes too little";
  }
  static std::optional<AdapterId> adapter_of(size_t sequence) {
    return sequence % 4 == 3 ? std::nullopt : std::optional(static_cast<AdapterId>(sequence % 4));
  }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BackendAdapters);

TEST_P(BackendAdapters, GiveTheLogitsOfTheMergedModelForEachSequenceOfOneStep) {
  Feeder together = feeder();
  std::vector<std::vector<TokenId>> prompts;
  std::vector<Feeder::Part> parts;
  for (int s = 0; s < 4; ++s) prompts.push_back(ids(20, static_cast<uint64_t>(s)));
  for (size_t s = 0; s < 4; ++s) parts.push_back({static_cast<int>(s), prompts[s], adapter_of(s)});
  together.feed(parts);
  for (size_t s = 0; s < 3; ++s)
    expect_merged(together.logits(static_cast<int>(s)), prompts[s], (*adapters_)[s],
                  "adapter " + std::to_string(s));
  EXPECT_LT(worst_row(together.logits(3), reference_logits(*weights_, prompts[3], GetParam().rounding)),
            GetParam().tolerance);
}

TEST_P(BackendAdapters, GiveTheLogitsOfTheMergedModelWhicheverMatrixTheyChange) {
  const RequestAdapters each = adapters_of_one_matrix(*weights_);
  Feeder together(GetParam().make(weights_, std::make_shared<const RequestAdapters>(each)),
                  Fulfilment::kNumPages);
  std::vector<std::vector<TokenId>> prompts;
  std::vector<Feeder::Part> parts;
  for (size_t s = 0; s < each.size(); ++s) prompts.push_back(ids(9, s));
  for (size_t s = 0; s < each.size(); ++s)
    parts.push_back({static_cast<int>(s), prompts[s], static_cast<AdapterId>(s)});
  together.feed(parts);
  for (size_t s = 0; s < each.size(); ++s)
    expect_merged(together.logits(static_cast<int>(s)), prompts[s], each[s], "matrix " + std::to_string(s));
}

TEST_P(BackendAdapters, LeaveTheBitsOfRowsWithoutOneAsTheyAreOnABackendWithoutAdapters) {
  const std::vector<TokenId> prompt = ids(45, 10), chat = ids(30, 11), others[]{ids(40, 12), ids(33, 13)};
  Feeder bare(GetParam().make(weights_, nullptr), Fulfilment::kNumPages), mixed = feeder(), plain = feeder();
  for (Feeder* each : {&bare, &plain}) {
    each->feed({{0, prompt}});
    each->feed({{1, chat}});
  }
  EXPECT_EQ(plain.logits(0), bare.logits(0));
  mixed.feed({{2, std::span(others[0]).first(39), AdapterId{0}},
              {0, std::span(prompt).first(44)},
              {3, std::span(others[1]).first(32), AdapterId{1}},
              {1, std::span(chat).first(29)}});
  mixed.feed({{2, std::span(others[0]).last(1), AdapterId{0}},
              {0, std::span(prompt).last(1)},
              {3, std::span(others[1]).last(1), AdapterId{1}},
              {1, std::span(chat).last(1)}});
  EXPECT_EQ(mixed.logits(0), bare.logits(0));
  EXPECT_EQ(mixed.logits(1), bare.logits(1));
}

TEST_P(BackendAdapters, GiveTheBitsOfTheSequenceAloneHoweverManyShareTheStep) {
  for (const int num_sequences : {2, 5, 9, 33}) {
    std::vector<std::vector<TokenId>> prompts;
    std::vector<Feeder::Part> parts;
    for (int s = 0; s < num_sequences; ++s) prompts.push_back(ids(1 + 7 * s % 20, static_cast<uint64_t>(s)));
    for (int s = 0; s < num_sequences; ++s)
      parts.push_back({s, prompts[static_cast<size_t>(s)], adapter_of(static_cast<size_t>(s))});
    Feeder together = feeder();
    together.feed(parts);
    for (size_t s = 0; s < prompts.size(); ++s)
      ASSERT_EQ(together.logits(static_cast<int>(s)), logits_alone(prompts[s], adapter_of(s)))
          << "sequence " << s << " of " << num_sequences;
  }
}

TEST_P(BackendAdapters, GiveTheSameBitsHoweverAPromptIsCutIntoChunks) {
  const std::vector<TokenId> prompt = ids(70, 20);
  const std::vector<float> whole = logits_alone(prompt, AdapterId{0});
  for (const size_t chunk : {1, 7, 32}) {
    Feeder chunked = feeder();
    for (size_t first = 0; first < prompt.size(); first += chunk)
      chunked.feed(
          {{0, std::span(prompt).subspan(first, std::min(chunk, prompt.size() - first)), AdapterId{0}}});
    EXPECT_EQ(chunked.logits(0), whole) << chunk;
  }
}

TEST_P(BackendAdapters, VerifyDraftsWithTheAdapterOfTheirSequence) {
  ASSERT_TRUE(feeder().takes_trees());
  const std::vector<TokenId> prompt = ids(26, 30), other = ids(40, 31);
  const AdapterId adapter{0};
  Feeder plain = feeder(), drafted = feeder();
  plain.feed({{0, prompt, adapter}});
  std::vector<TokenId> text = prompt;
  for (int n = 0; n < 4; ++n) {
    text.push_back(plain.likeliest_next(0));
    plain.feed({{0, std::span(text).last(1), adapter}});
  }
  const auto answer = std::span<const TokenId>(text).last(4);
  const TokenId wrong = answer[1] == 0 ? 1 : answer[1] - 1;
  drafted.feed({{0, prompt, adapter}, {1, std::span(other).first(20)}});
  std::vector<int> kept;
  const std::vector<TokenId> drafts{wrong, answer[1], answer[2]};
  const std::vector<int> parents{-1, -1, 1};
  drafted.feed_tree({0, answer.first(1), adapter}, drafts, parents, {1, std::span(other).last(20)}, kept);
  EXPECT_EQ(kept, (std::vector<int>{1, 2}));
  drafted.feed({{0, answer.last(1), adapter}});
  EXPECT_EQ(drafted.logits(0), plain.logits(0));
  EXPECT_EQ(drafted.logits(1), logits_alone(other, std::nullopt));
}

}  // namespace nibble
