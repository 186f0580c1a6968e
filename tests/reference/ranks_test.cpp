// The forward pass of a model that ranks share (model/share.h), with the reference's operations: each rank has copies of its shares alone, and
// they add up what they have behind attention and behind the experts, in the order of ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>

#include "model/share.h"
#include "model/synthetic.h"
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

constexpr int kTokens{40}, kRankPages{2};

// Copies of a rank's shares.
class CopiedShare {
 public:
  CopiedShare(const Weights& whole, const Share& share) : share_(share), whole_(whole.config) {
    weights_.config = config_of(whole.config, share);
    weights_.embedding = whole.embedding;
    weights_.final_norm = whole.final_norm;
    weights_.unembedding = dense(whole.unembedding, share.unembedding(whole_));
    for (const LayerWeights& from : whole.layers) {
      LayerWeights& to = weights_.layers.emplace_back(from);
      const Slice q = share.q(whole_), kv = share.k_and_v(whole_), up = share.gate_up(whole_);
      to.q = dense(from.q, q);
      to.k = dense(from.k, kv);
      to.v = dense(from.v, kv);
      to.o = dense(from.o, share.o(whole_));
      to.q_bias = vectors(from.q_bias, 1, q.rows);
      to.k_bias = vectors(from.k_bias, 1, kv.rows);
      to.v_bias = vectors(from.v_bias, 1, kv.rows);
      to.sinks = vectors(from.sinks, 1, share.heads);
      to.gate_up.first = mxfp4(from.gate_up.first, up);
      to.gate_up.first_bias = vectors(from.gate_up.first_bias, whole_.num_experts, up.rows);
      to.down.first = mxfp4(from.down.first, share.down(whole_));
      if (share.adds_once()) continue;
      to.o_bias = zeros(from.o_bias, 1);
      to.down.first_bias = zeros(from.down.first_bias, whole_.num_experts);
    }
  }
  const Weights& operator*() const { return weights_; }

 private:
  const void* keep(const Pieces& pieces) {
    auto bytes = std::make_unique<std::byte[]>(pieces.total());
    for (size_t i = 0; i < pieces.count; ++i)
      std::memcpy(bytes.get() + i * pieces.bytes, pieces.data + i * pieces.stride, pieces.bytes);
    return kept_.emplace_back(std::move(bytes)).get();
  }
  Matrix dense(const Matrix& from, const Slice& slice) {
    const Elements& all = from.elements();
    EXPECT_EQ(all.format, Format::kBf16);
    return {
        slice.rows.count, slice.cols.count,
        Elements{all.format, keep(pieces_of(all.data, {sizeof(Bf16), 1}, from.rows, from.cols, 1, slice))}};
  }
  Matrix mxfp4(const Matrix& first, const Slice& slice) {
    const Elements& all = first.elements();
    const auto part = [&](const void* data, ElementSize size) {
      return keep(pieces_of(data, size, first.rows, first.cols, whole_.num_experts, slice));
    };
    return {
        slice.rows.count, slice.cols.count,
        Elements{all.format, part(all.data, {1, 2}), static_cast<const uint8_t*>(part(all.scales, {1, 32}))}};
  }
  Vector vectors(const Vector& first, int num, const IndexRange& part) {
    const size_t bytes = first.format == Format::kF32 ? sizeof(float) : sizeof(Bf16);
    return {keep(pieces_of(first.data, {bytes, 1}, num, first.count, 1, {{0, num}, part})), first.format,
            part.count};
  }
  Vector zeros(const Vector& first, int num) {
    auto bytes = std::make_unique<std::byte[]>(static_cast<size_t>(num * first.count) * sizeof(float));
    return {kept_.emplace_back(std::move(bytes)).get(), Format::kF32, first.count};
  }

  const Share share_;
  const Config whole_;
  Weights weights_;
  std::vector<std::unique_ptr<std::byte[]>> kept_;
};

struct ReferenceRank {
  ReferenceRank(const Weights& whole, const Share& of)
      : share(of),
        copies(whole, of),
        kv((*copies).config, kRankPages, kRankPages),
        a((*copies).config, kTokens) {}
  Share share;
  CopiedShare copies;
  KvCache kv;
  Activations a;
};

void fill(View<float, 2> x, float value) { std::fill_n(x.data, x.shape[0] * x.shape[1], value); }

// Adds up `own` of all ranks by rank, behind x, and leaves the sum with all.
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
      const LayerWeights& layer = (*rank.copies).layers[l];
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
      const LayerWeights& layer = (*rank.copies).layers[l];
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
    unembed({rank.a.x, outputs, whole.final_norm, (*rank.copies).unembedding, config.rms_eps, rank.a.normed,
             own});
    for (size_t row = 0; row < outputs.size(); ++row)
      std::copy_n(own.view().row(static_cast<ptrdiff_t>(row)), rank.share.vocab.count,
                  logits.begin() + static_cast<ptrdiff_t>(row) * config.vocab + rank.share.vocab.first);
  }
  return logits;
}

// 8 heads of keys and values; 9.5 tiles of units.
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
  const std::vector<PageId> pages{PageId{0}, PageId{1}};
  std::vector<BatchRow> rows;
  for (int t = 0; t < kTokens; ++t) rows.push_back({ids[static_cast<size_t>(t)], t, {pages}, {pages}});
  const std::vector<int> outputs{0, 7, kTokens - 1};
  KvCache kv(config, kRankPages, kRankPages);
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
    // Sums are rounded to float32 once more for each rank, twice in a layer.
    EXPECT_LT(std::sqrt(error / norm), 1e-6) << parts.size();
  }
}

}  // namespace
}  // namespace nibble::reference
