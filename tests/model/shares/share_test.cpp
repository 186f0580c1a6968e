// Tests how a model is divided among ranks: joined together, the shares of all ranks are the whole model,
// byte for byte.
#include "model/shares/share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "core/numbers/random.h"
#include "model/checkpoint/synthetic.h"
#include "model/shares/share_weights.h"
#include "tests/error_of.h"
#include "tests/model/small_model.h"

namespace nibble {
namespace {

using Parts = std::vector<int>;

Config config_with(int num_kv_heads, int group, int intermediate, int vocab) {
  Config config = small_config();
  config.num_kv_heads = num_kv_heads;
  config.num_heads = num_kv_heads * group;
  config.intermediate = intermediate;
  config.vocab = vocab;
  return config;
}

std::vector<int> counts_of(const std::vector<Share>& shares, IndexRange Share::*range) {
  std::vector<int> counts;
  for (const Share& share : shares) counts.push_back((share.*range).count);
  return counts;
}

TEST(Share, OfGptOssIsWholeTilesAndStrips) {
  const Config config = *named_config("gpt-oss-120b");
  const auto two = shares_of(config, Parts{1, 1}, "120b");
  EXPECT_EQ(counts_of(two, &Share::units), (Parts{1472, 1408}));
  EXPECT_EQ(counts_of(two, &Share::heads), (Parts{32, 32}));
  EXPECT_EQ(counts_of(two, &Share::vocab), (Parts{100544, 100544}));
  const auto eight = shares_of(config, Parts(8, 1), "120b");
  EXPECT_EQ(std::ranges::max(counts_of(eight, &Share::units)), 6 * 64);
  EXPECT_EQ(std::ranges::min(counts_of(eight, &Share::units)), 5 * 64);
  EXPECT_EQ(counts_of(eight, &Share::kv_heads), Parts(8, 1));
  const auto uneven = shares_of(config, Parts{3, 1}, "120b");
  EXPECT_EQ(counts_of(uneven, &Share::units), (Parts{34 * 64, 11 * 64}));
  EXPECT_EQ(counts_of(uneven, &Share::kv_heads), (Parts{6, 2}));
  EXPECT_EQ(config_of(config, uneven[1]).num_heads, 16);
  EXPECT_EQ(config_of(config, uneven[1]).vocab, config.vocab);
  EXPECT_EQ(config_of(config, whole_of(config)), config);
}

TEST(Share, AddsWhatIsAddedOnceInOneRankOnly) {
  const auto shares = shares_of(*named_config("gpt-oss-20b"), Parts(8, 1), "20b");
  EXPECT_EQ(std::ranges::count_if(shares, &Share::adds_once), 1);
}

TEST(Share, IsRefusedWhereHeadsDoNotDivideOrARankWouldHaveNothing) {
  const Config config = *named_config("gpt-oss-20b");
  EXPECT_EQ(error_of([&] { shares_of(config, Parts(3, 1), "20b"); }),
            "--tensor-parallel-size 3: 20b has 8 key/value heads, which can't be split evenly into 3 parts");
  EXPECT_EQ(error_of([&] {
              shares_of(config, Parts{100, 1}, "20b");
            }),
            "--tensor-parallel-size 2: 20b has 8 key/value heads and 2880 units per expert; "
            "part 1 would have 0 and 0: use fewer parts, or a more even --tensor-split");
  EXPECT_NE(error_of([&] { shares_of(config_with(8, 8, 96, 99), Parts(4, 1), "narrow"); }), "");
  EXPECT_EQ(error_of([&] {
              shares_of(config, Parts{100, 1}, "20b", {"--nodes", ExpertSplit::kWhole});
            }),
            "--nodes 2: 20b has 8 key/value heads and 32 experts; part 1 would have 0 and 0: "
            "use fewer parts, or a more even --tensor-split");
}

TEST(Share, OfWholeExpertsHasEachOfThemOnceAndAsWideAsItIs) {
  for (int num_ranks = 1; num_ranks <= 8; ++num_ranks)
    for (const int num_experts : {num_ranks, 8, 13, 32, 37, 128}) {
      Config config = config_with(num_ranks * 2, 3, 96, 400);
      config.num_experts = num_experts;
      const auto shares = shares_of(config, Parts(static_cast<size_t>(num_ranks), 1), "model",
                                    {"--nodes", ExpertSplit::kWhole});
      int next = 0;
      for (const Share& share : shares) {
        EXPECT_EQ(share.experts.first, next);
        next = share.experts.end();
        EXPECT_EQ(share.units, (IndexRange{0, config.intermediate}));
        EXPECT_TRUE(share.adds_down_bias());
        EXPECT_EQ(config_of(config, share).experts(), share.experts);
        // The number of experts that the router chooses from stays the same.
        EXPECT_EQ(config_of(config, share).num_experts, num_experts);
      }
      EXPECT_EQ(next, num_experts);
      const auto counts = counts_of(shares, &Share::experts);
      EXPECT_LE(std::ranges::max(counts) - std::ranges::min(counts), 1) << num_experts << " of " << num_ranks;
    }
  Config config = *named_config("gpt-oss-120b");
  EXPECT_EQ(
      counts_of(shares_of(config, Parts{3, 1}, "120b", {"--nodes", ExpertSplit::kWhole}), &Share::experts),
      (Parts{96, 32}));
}

// Puts the pieces of all ranks back where their slices lie in the matrices, and returns the result. Together
// the pieces must have as many bytes as the matrices.
std::vector<std::byte> joined(const std::vector<std::byte>& stored, ElementSize size, int rows, int cols,
                              int num_matrices, const std::vector<MatrixSlice>& slices) {
  const auto bytes_of = [&](int num_cols) {
    return static_cast<size_t>(num_cols) * size.bytes / size.elements;
  };
  std::vector<std::byte> found(stored.size());
  size_t num_bytes = 0;
  for (const MatrixSlice& slice : slices) {
    const Pieces pieces = pieces_of({stored.data(), size, rows, cols, num_matrices}, slice);
    std::vector<std::byte> own;  // the pieces that a rank gets, one after another
    for (size_t i = 0; i < pieces.count; ++i)
      own.insert(own.end(), pieces.data + i * pieces.stride, pieces.data + i * pieces.stride + pieces.bytes);
    num_bytes += own.size();
    EXPECT_EQ(own.size(), pieces.total());
    auto next = own.begin();
    for (int row = 0; row < num_matrices * rows; ++row) {
      if (row % rows < slice.rows.first || row % rows >= slice.rows.end()) continue;
      const auto count = static_cast<ptrdiff_t>(bytes_of(slice.cols.count));
      std::copy(next, next + count,
                found.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(row) * bytes_of(cols) +
                                                       bytes_of(slice.cols.first)));
      next += count;
    }
  }
  EXPECT_EQ(num_bytes, stored.size());
  return found;
}

TEST(Share, JoinedAgainIsTheWholeToTheByte) {
  constexpr ElementSize kCodes{1, 2}, kScales{1, 32}, kBf16{2, 1};
  uint64_t seed = 1;
  for (const int num_ranks : {1, 2, 3, 4, 5, 6, 7, 8})
    for (const int width : {512, 544, 608, 32 * 37, 2880}) {
      const Config config = config_with(num_ranks * 2, 3, width, 400 + num_ranks);
      Parts even(static_cast<size_t>(num_ranks), 1), uneven = even;
      uneven[0] = 3;
      for (const Parts& parts : {even, uneven}) {
        if (width < 600 && parts[0] == 3 && num_ranks > 4) continue;  // some rank would have no part
        const std::vector<Share> shares = shares_of(config, parts, "model");
        const auto check = [&](int rows, int cols, int num_matrices, ElementSize size, auto slice_of) {
          std::vector<std::byte> stored(static_cast<size_t>(rows) * static_cast<size_t>(num_matrices) *
                                        static_cast<size_t>(cols) * size.bytes / size.elements);
          for (size_t i = 0; i < stored.size(); ++i) stored[i] = std::byte(random_bits(seed, i));
          ++seed;
          std::vector<MatrixSlice> slices;
          for (const Share& share : shares) slices.push_back((share.*slice_of)(config));
          ASSERT_EQ(joined(stored, size, rows, cols, num_matrices, slices), stored)
              << num_ranks << " ranks, width " << width;
        };
        const int H = config.hidden, q = config.num_heads * config.head_dim,
                  kv = config.num_kv_heads * config.head_dim;
        check(q, H, 1, kBf16, &Share::q);
        check(kv, H, 1, kBf16, &Share::k_and_v);
        check(H, q, 1, kBf16, &Share::o);
        check(2 * width, H, 2, kCodes, &Share::gate_up);
        check(2 * width, H, 2, kScales, &Share::gate_up);
        check(H, width, 2, kCodes, &Share::down);
        check(H, width, 2, kScales, &Share::down);
        check(config.vocab, H, 1, kBf16, &Share::unembedding);
      }
    }
}

std::span<const std::byte> bytes_of(const void* data, size_t count) {
  return {static_cast<const std::byte*>(data), count};
}
// Returns the bytes of all experts of these shares, rank after rank, with separate codes, scales and biases.
std::array<std::vector<std::byte>, 3> joined_experts(const std::vector<std::shared_ptr<const Weights>>& ranks,
                                                     size_t layer, ExpertMatrices LayerWeights::*which) {
  std::array<std::vector<std::byte>, 3> all;
  for (const auto& rank : ranks) {
    const ExpertMatrices& experts = rank->layers[layer].*which;
    for (int e = 0; e < rank->config.experts().count; ++e) {
      const Matrix matrix = experts.matrix(e);
      const Vector bias = experts.bias(e);
      const auto elements = static_cast<size_t>(matrix.rows) * static_cast<size_t>(matrix.cols);
      const auto codes = bytes_of(matrix.elements().data, elements / 2),
                 scales = bytes_of(matrix.elements().scales, elements / 32),
                 biases = bytes_of(bias.data, num_bytes(bias.format, 1) * static_cast<size_t>(bias.count));
      all[0].insert(all[0].end(), codes.begin(), codes.end());
      all[1].insert(all[1].end(), scales.begin(), scales.end());
      all[2].insert(all[2].end(), biases.begin(), biases.end());
    }
  }
  return all;
}

TEST(Share, OfWholeExpertsJoinedAgainIsAllTheirBytes) {
  for (int num_ranks = 1; num_ranks <= 8; ++num_ranks) {
    Config config = config_with(num_ranks * 2, 1, 96, 16 * num_ranks);
    config.num_experts = 11;
    const auto whole = std::make_shared<const Weights>(make_synthetic(config, "a model"));
    std::vector<std::shared_ptr<const Weights>> ranks;
    for (const Share& share : shares_of(config, Parts(static_cast<size_t>(num_ranks), 1), "a model",
                                        {"--nodes", ExpertSplit::kWhole}))
      ranks.push_back(share_of(*whole, share));
    for (size_t layer = 0; layer < whole->layers.size(); ++layer) {
      for (const auto which : {&LayerWeights::gate_up, &LayerWeights::down})
        EXPECT_EQ(joined_experts(ranks, layer, which), joined_experts({whole}, layer, which)) << num_ranks;
      for (const auto& rank : ranks) EXPECT_EQ(rank->layers[layer].router.rows, 11);
    }
  }
}

// With AttentionSplit::kSequences, each rank has all weights of attention, including the bias. The other
// weights are divided among the ranks as they are if attention is divided by heads. Both hold for any number
// of ranks.
TEST(Share, OfSequencesHasAllOfAttentionAndTheSameOfTheRest) {
  Config config = config_with(8, 2, 640, 200);
  config.num_experts = 11;
  const Weights whole = make_synthetic(config, "a model");
  for (const int num_ranks : {2, 3, 5, 8})
    for (const ExpertSplit split : {ExpertSplit::kUnits, ExpertSplit::kWhole}) {
      const Parts parts(static_cast<size_t>(num_ranks), 1);
      int num_units = 0, num_experts = 0, num_vocab = 0;
      for (const Share& share :
           shares_of(config, parts, "a model", {"--gpus", split, AttentionSplit::kSequences})) {
        EXPECT_TRUE(share.has_own_sequences);
        EXPECT_EQ(config_of(config, share).num_heads, config.num_heads);
        EXPECT_EQ(config_of(config, share).num_kv_heads, config.num_kv_heads);
        const auto own = share_of(whole, share);
        const LayerWeights &here = own->layers[1], &there = whole.layers[1];
        EXPECT_EQ(here.q.rows, there.q.rows);
        EXPECT_EQ(here.o.cols, there.o.cols);
        for (int i = 0; i < config.hidden; ++i)
          ASSERT_EQ(here.o_bias[i], there.o_bias[i]) << "rank " << share.rank;
        num_units += share.units.count;
        num_experts += share.experts.count;
        num_vocab += share.vocab.count;
      }
      const bool is_whole = split == ExpertSplit::kWhole;
      EXPECT_EQ(num_units, config.intermediate * (is_whole ? num_ranks : 1));
      EXPECT_EQ(num_experts, config.num_experts * (is_whole ? 1 : num_ranks));
      EXPECT_EQ(num_vocab, config.vocab);
    }
}

// However experts are split, the rank with the first columns of an expert adds the expert's bias.
TEST(Share, AddsEachBiasOfDownOnce) {
  Config config = config_with(4, 1, 320, 64);
  const Weights whole = make_synthetic(config, "a model");
  EXPECT_NE(whole.layers[1].down.bias(1)[1], 0);
  for (const ExpertSplit split : {ExpertSplit::kUnits, ExpertSplit::kWhole}) {
    std::vector<float> sums(static_cast<size_t>(config.num_experts * config.hidden));
    for (const Share& share : shares_of(config, Parts(4, 1), "a model", {"--nodes", split})) {
      const auto own = share_of(whole, share);
      for (int e = 0; e < share.experts.count; ++e)
        for (int i = 0; i < config.hidden; ++i)
          sums[static_cast<size_t>((share.experts.first + e) * config.hidden + i)] +=
              own->layers[1].down.bias(e)[i];
    }
    for (int e = 0; e < config.num_experts; ++e)
      for (int i = 0; i < config.hidden; ++i)
        ASSERT_EQ(sums[static_cast<size_t>(e * config.hidden + i)], whole.layers[1].down.bias(e)[i]) << e;
  }
}

}  // namespace
}  // namespace nibble
