// Runs the forward pass of a model that ranks share (model/shares/share.h), with the reference's operations.
// Each rank has only copies of its shares. After attention and after the experts, the ranks' results are
// added in the order of ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "model/checkpoint/synthetic.h"
#include "model/shares/share_weights.h"
#include "reference/activations.h"
#include "reference/attend.h"
#include "reference/embed.h"
#include "reference/experts.h"
#include "reference/forward.h"
#include "reference/linear.h"
#include "reference/qkv.h"
#include "reference/route.h"
#include "reference/unembed.h"
#include "tests/backend/feeder.h"

namespace nibble::reference {
namespace {

constexpr int kTokens{40}, kRankPages{4};

struct ReferenceRank {
  ReferenceRank(const Weights& whole, const Share& of)
      : share(of),
        weights(share_of(whole, of)),
        kv(weights->config, kRankPages),
        a(weights->config, kTokens) {}
  Share share;
  std::shared_ptr<const Weights> weights;
  KvCache kv;
  Activations a;
};

void fill(View<float, 2> x, float value) { std::fill_n(x.data, x.shape[0] * x.shape[1], value); }

// Adds `own` of all ranks in rank order, starting from the old x if `has_x`, otherwise from 0. Stores the
// sum in the x of every rank.
void add_up(std::vector<ReferenceRank>& ranks, const std::vector<std::vector<float>>& own, bool has_x) {
  std::vector<float> sum(own.front().size());
  for (size_t i = 0; i < sum.size(); ++i) {
    float s = has_x ? ranks.front().a.x.view().data[i] : 0;
    for (const std::vector<float>& terms : own) s += terms[i];
    sum[i] = s;
  }
  for (ReferenceRank& rank : ranks) std::copy(sum.begin(), sum.end(), rank.a.x.view().data);
}

std::vector<float> shared_logits(const Weights& whole, std::span<const int> parts,
                                 std::span<const BatchRow> rows, std::span<const int> outputs) {
  const Config& config = whole.config;
  const RopeTable rope = make_rope_table(config.rope, config.head_dim);
  std::vector<ReferenceRank> ranks;
  for (const Share& share : shares_of(config, parts, "a model")) ranks.emplace_back(whole, share);
  for (ReferenceRank& rank : ranks) embed({rows, whole.embedding, rank.a.x});
  for (size_t l = 0; l < whole.layers.size(); ++l) {
    std::vector<std::vector<float>> own;
    const auto window =
        whole.layers[l].kind == LayerKind::kSliding ? std::optional(config.window) : std::nullopt;
    for (ReferenceRank& rank : ranks) {
      const LayerWeights& layer = rank.weights->layers[l];
      qkv({rank.a.x, rows, layer, config.rms_eps, rope, rank.a.q, rank.kv.layer(l)});
      attend({rank.a.q, rows, rank.kv.layer(l), layer.sinks, window, rank.a.attended});
      if (!rank.share.adds_once()) fill(rank.a.x, 0);
      project({rank.a.attended, layer.o, layer.o_bias, rank.a.x});
      const View<float, 2> x = rank.a.x.view();
      own.emplace_back(x.data, x.data + x.shape[0] * x.shape[1]);
    }
    add_up(ranks, own, /*has_x=*/false);
    own.clear();
    for (ReferenceRank& rank : ranks) {
      const LayerWeights& layer = rank.weights->layers[l];
      route({rank.a.x, layer, config.rms_eps, rank.a.normed, rank.a.chosen, rank.a.chosen_weights});
      Array<float, 2> terms({std::ssize(rows), config.hidden});
      experts({rank.a.normed, rank.a.chosen, rank.a.chosen_weights, layer, config.num_experts,
               config.swiglu_limit, terms});
      own.emplace_back(terms.view().data, terms.view().data + terms.view().shape[0] * config.hidden);
    }
    add_up(ranks, own, /*has_x=*/true);
  }
  std::vector<float> logits(outputs.size() * static_cast<size_t>(config.vocab));
  for (ReferenceRank& rank : ranks) {
    Array<float, 2> own({std::ssize(outputs), rank.share.vocab.count});
    unembed(
        {rank.a.x, outputs, whole.final_norm, rank.weights->unembedding, config.rms_eps, rank.a.normed, own});
    for (size_t row = 0; row < outputs.size(); ++row)
      std::copy_n(own.view().row(static_cast<ptrdiff_t>(row)), rank.share.vocab.count,
                  logits.begin() + static_cast<ptrdiff_t>(row) * config.vocab + rank.share.vocab.first);
  }
  return logits;
}

// The model has 8 KV heads and 9.5 tiles of intermediate columns.
TEST(Ranks, HaveTheLogitsOfTheWholeModel) {
  Config config = *named_config("gpt-oss-20b");
  config.num_layers = 2;
  config.layer_kinds.resize(2);
  config.hidden = 64;
  config.intermediate = 608;
  config.num_heads = 16;
  config.num_kv_heads = 8;
  config.head_dim = 16;
  config.num_experts = 4;
  config.experts_per_token = 2;
  config.vocab = 150;
  config.window = 16;
  const Weights weights = make_synthetic(config, "eight heads");
  const std::vector<TokenId> ids = random_ids(kTokens, config.vocab, 1);
  const std::vector<PageId> full{PageId{0}, PageId{1}}, sliding{PageId{2}, PageId{3}};
  std::vector<BatchRow> rows;
  for (int t = 0; t < kTokens; ++t) rows.push_back({ids[static_cast<size_t>(t)], t, {full}, {sliding}});
  const std::vector<int> outputs{0, 7, kTokens - 1};
  KvCache kv(config, kRankPages);
  Array<float, 2> whole({std::ssize(outputs), config.vocab});
  forward({weights, make_rope_table(config.rope, config.head_dim), rows, outputs, kv, whole});
  for (const std::vector<int>& parts :
       std::vector<std::vector<int>>{{1}, {1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1}, {3, 1}, {1, 5}}) {
    const std::vector<float> logits = shared_logits(weights, parts, rows, outputs);
    EXPECT_EQ(shared_logits(weights, parts, rows, outputs), logits);
    double error = 0, norm = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const double expected = whole.view().data[i];
      error += std::pow(logits[i] - expected, 2);
      norm += std::pow(expected, 2);
    }
    EXPECT_GT(norm, 1) << parts.size();
    // For each rank, the sums have one float32 rounding more than those of the whole model, twice in each
    // layer.
    EXPECT_LT(std::sqrt(error / norm), 1e-6) << parts.size();
  }
}

}  // namespace
}  // namespace nibble::reference
