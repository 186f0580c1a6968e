// Shares of a model among ranks: joined again they are the whole, to the byte.
#include "model/share.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>

#include "core/random.h"
#include "model/weights.h"
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
  EXPECT_EQ(
      error_of([&] { shares_of(config, Parts(3, 1), "20b"); }),
      "--tensor-parallel-size 3: 20b has 8 heads of keys and values, of which every part takes as many: "
      "3 does not divide them");
  EXPECT_EQ(error_of([&] {
              shares_of(config, Parts{100, 1}, "20b");
            }),
            "--tensor-parallel-size 2: 20b has 8 heads of keys and values and 2880 units an expert, of which "
            "part 1 would have 0 and 0: take fewer parts, or a more even --tensor-split");
  EXPECT_NE(error_of([&] { shares_of(config_with(8, 8, 96, 99), Parts(4, 1), "narrow"); }), "");
}

// Copies every rank's pieces to where the slice says that they belong, and returns what comes of it; each element must come once.
std::vector<std::byte> joined(const std::vector<std::byte>& stored, ElementSize size, int rows, int cols,
                              int num_matrices, const std::vector<MatrixSlice>& slices) {
  const auto bytes_of = [&](int num_cols) {
    return static_cast<size_t>(num_cols) * size.bytes / size.elements;
  };
  std::vector<std::byte> found(stored.size());
  size_t num_bytes = 0;
  for (const MatrixSlice& slice : slices) {
    const Pieces pieces = pieces_of(stored.data(), size, rows, cols, num_matrices, slice);
    std::vector<std::byte> own;  // as one after the other they arrive at a rank
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
        if (width < 600 && parts[0] == 3 && num_ranks > 4) continue;  // some rank would have nothing
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

}  // namespace
}  // namespace nibble
