// Tests the layout of block-scaled activations, and that comparisons of them find errors. Needs no GPU.
#include "backend/cuda/verify/blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "backend/cuda/verify/block_truth.h"
#include "core/numbers/e2m1.h"
#include "core/numbers/random.h"
#include "tests/backend/cuda/host/strip_words.h"

namespace nibble::cuda::verify {
namespace {

constexpr int kRows{3}, kCols{96};  // one and a half tiles

std::vector<uint16_t> random_rows(uint64_t seed) {
  std::vector<uint16_t> bits(kRows * kCols);
  for (size_t i = 0; i < bits.size(); ++i) {
    const double x = 2 * random_unit(seed, i) - 1;
    bits[i] = to_bf16(static_cast<float>(std::ldexp(x * x * x, static_cast<int>(seed % 9) - 4))).bits;
  }
  return bits;
}

// Kernels store eight neighbouring codes at a time; `eight` is the index of these eight codes in their row.
TEST(CudaBlockRows, EveryEightHasAPlaceOfItsOwn) {
  for (const BlockFormat format : kBlockFormats) {
    std::set<int> codes, scales;
    for (int eight = 0; eight < 16; ++eight) {
      EXPECT_TRUE(codes.insert(place_of_codes(format, eight)).second);
      scales.insert(place_of_scale(eight));
    }
    EXPECT_EQ(scales, (std::set{0, 1, 4, 5}));
    const int half_tile = row_tile_bytes(format) / num_terms(format);
    EXPECT_EQ(*codes.rbegin() % row_tile_bytes(format), half_tile - eight_bytes(format));
  }
}

// Kernels write eight codes in the order of quantise_block.h. The host computes the place of each code
// separately, and must find all of them.
TEST(CudaBlockRows, TheHostFindsCodesWhereKernelsPutThem) {
  for (const BlockFormat format : kBlockFormats)
    for (int col = 0; col < kCols; ++col) {
      std::vector<uint16_t> bits(kRows * kCols);
      bits[static_cast<size_t>(kCols + col)] = to_bf16(1).bits;
      const HostBlocks blocks = quantise_rows(format, kRows, kCols, bits);
      const int place = place_of(form_of(format), col % 8);
      const size_t first = row_bytes({format, kCols}) + static_cast<size_t>(place_of_codes(format, col / 8));
      const bool is_nibble = format == BlockFormat::kMxfp4;
      const uint8_t byte = blocks.codes[first + static_cast<size_t>(is_nibble ? place / 2 : place)];
      EXPECT_NE(is_nibble ? byte >> 4 * (place % 2) & 15 : byte, 0) << col;
      EXPECT_EQ(blocks.value(1, col), 1) << col;
      const auto* scales = reinterpret_cast<const uint8_t*>(blocks.scales.data() + 2);  // after row 0's tiles
      EXPECT_EQ(scales[place_of_scale(col / 8)], blocks.scale(1, col / kBlockCols, 0));
    }
}

TEST(CudaBlockRows, TwoTermsAreTheNumber) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto bits = random_rows(seed);
    const HostBlocks blocks = quantise_rows(BlockFormat::kMxfp8x2, kRows, kCols, bits);
    const Activations x = activations_of(blocks, true);
    for (int row = 0; row < kRows; ++row)
      for (int col = 0; col < kCols; ++col) {
        const auto at = static_cast<size_t>(row * kCols + col);
        const double scale = std::ldexp(1.0, blocks.scale(row, col / kBlockCols, 0) - 127);
        ASSERT_NEAR(blocks.value(row, col), float_of(bits[at]), 0x1p-14 * scale);
        ASSERT_EQ(double{x.values[at]}, blocks.value(row, col));  // exact, because float32 holds the sum
      }
  }
}

// Returns the largest ratio of an error to its bound after `change` corrupts correct data.
template <typename Change>
double worst_after(BlockFormat format, uint64_t seed, const Change& change) {
  const auto bits = random_rows(seed);
  HostBlocks blocks = quantise_rows(format, kRows, kCols, bits);
  change(blocks);
  Comparison comparison;
  for (int row = 0; row < kRows; ++row) {
    std::vector<Near> expected;
    for (int col = 0; col < kCols; ++col)
      expected.push_back({float_of(bits[static_cast<size_t>(row * kCols + col)]), 1e-9});
    compare_numbers(comparison, "numbers", blocks, row, expected);
  }
  return comparison.finding().worst;
}

TEST(CudaBlockRows, NearestCodesAreRight) {
  for (const BlockFormat format : kBlockFormats)
    for (uint64_t seed = 0; seed < 50; ++seed)
      EXPECT_LE(worst_after(format, seed, [](HostBlocks&) {}), 1) << seed;
}

TEST(CudaBlockRows, WrongScalesCodesAndPaddingAreFound) {
  for (const BlockFormat format : kBlockFormats)
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const auto finds = [&](const auto& change) { return worst_after(format, seed, change) > 1; };
      EXPECT_TRUE(finds([](HostBlocks& blocks) { blocks.scales[2] += 2; }));
      EXPECT_TRUE(finds([](HostBlocks& blocks) { blocks.scales[2] -= 1 << 8; }));
      EXPECT_TRUE(finds(
          [](HostBlocks& blocks) { blocks.codes[3] ^= blocks.format == BlockFormat::kMxfp4 ? 0x40 : 0x20; }));
      // Corrupts the padding, which is the second half of the second tile. In lane 0, its codes follow the
      // eight codes of the first half.
      EXPECT_TRUE(finds([&](HostBlocks& blocks) {
        blocks.codes[static_cast<size_t>(row_tile_bytes(format) + eight_bytes(format))] = 1;
        blocks.scales[1] |= 127 << 8;
      }));
      EXPECT_TRUE(finds([](HostBlocks& blocks) { blocks.scales[1] |= 255 << 8; }));
    }
}

// A tile of a strip: for each lane, its codes in both groups of 32 columns, and the E8M0 scales of the 16
// rows for each group.
struct StripTile {
  cuda::test::LaneCodes codes[32][2];
  uint8_t scales[16][2];

  explicit StripTile(uint64_t seed) {
    for (uint64_t lane = 0; lane < 32; ++lane)
      for (uint64_t group = 0; group < 2; ++group)
        codes[lane][group] = cuda::test::random_lane_codes(seed + 2 * lane + group);
    for (uint64_t row = 0; row < 16; ++row)
      for (uint64_t group = 0; group < 2; ++group)
        scales[row][group] = static_cast<uint8_t>(120 + random_bits(seed, 2 * row + group) % 8);
  }
  double value(int row, int col) const {
    const int group = col / 32;
    const cuda::test::LaneCodes& lane = codes[row % 8 * 4 + col % 32 / 8][group];
    const uint8_t code = (row < 8 ? lane.upper : lane.lower)[col % 8];
    return double{to_float(E2m1{code})} * std::ldexp(1.0, scales[row][group] - 127);
  }
  uint32_t word(int lane, int group, int m) const { return cuda::test::strip_word(codes[lane][group], m); }
  // Returns the word of scales for row g, which follows the codes of the tile.
  uint32_t scale_word(int g) const {
    return (uint32_t{scales[g][0]} | uint32_t{scales[g + 8][0]} << 8 | uint32_t{scales[g][1]} << 16 |
            uint32_t{scales[g + 8][1]} << 24) +
           kScaleOffset * 0x01010101u;
  }
};

// Returns the registers of a warp for one block-scaled mma of a tile, loaded as in
// pipeline/block_columns.cuh. `x` is a tile of eight rows.
WarpRegisters registers_of_stage(const StripTile& tile, const HostBlocks& x, int term, int group) {
  const bool is_mxfp4 = x.format == BlockFormat::kMxfp4;
  WarpRegisters warp{};
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    const uint32_t words[]{tile.word(lane, 0, 0), tile.word(lane, 0, 1), tile.word(lane, 1, 0),
                           tile.word(lane, 1, 1)};
    if (is_mxfp4)
      unpack_nibbles(words, warp.a[lane]);
    else
      unpack_containers(words[2 * group], words[2 * group + 1], warp.a[lane]);
    const uint8_t* codes = x.codes.data() + g * row_tile_bytes(x.format) + term * 64 +
                           2 * t * eight_bytes(x.format) + (is_mxfp4 ? 0 : 8 * group);
    memcpy(warp.b[lane], codes, 8);
    warp.a_scale[lane] = weight_scales(tile.scale_word(g), lane);
    warp.b_scale[lane] = x.scales[static_cast<size_t>(g)];
  }
  return warp;
}

TEST(CudaBlockRows, AWarpMultipliesWhatTheyHold) {
  for (const BlockFormat format : kBlockFormats)
    for (uint64_t seed = 0; seed < 20; ++seed) {
      std::vector<uint16_t> bits(8 * 64);
      for (size_t i = 0; i < bits.size(); ++i)
        bits[i] = to_bf16(static_cast<float>(2 * random_unit(seed, i) - 1)).bits;
      const HostBlocks x = quantise_rows(format, 8, 64, bits);
      const StripTile tile(1000 * seed);
      double sums[32][4]{};
      const BlockForm form = form_of(format);
      for (int term = 0; term < num_terms(format); ++term)
        for (int group = 0; group < 64 / contraction(form); ++group) {
          const WarpProducts products =
              block_truth(form, group, 2 * term + group, registers_of_stage(tile, x, term, group));
          for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < 4; ++i) sums[lane][i] += products.d[lane][i];
        }
      for (int row = 0; row < 16; ++row)
        for (int column = 0; column < 8; ++column) {
          double expected = 0;
          for (int col = 0; col < 64; ++col) expected += tile.value(row, col) * x.value(column, col);
          ASSERT_NEAR(sums[row % 8 * 4 + column / 2][row / 8 * 2 + column % 2], expected, 1e-12)
              << row << ", " << column;
        }
    }
}

}  // namespace
}  // namespace nibble::cuda::verify
