// Tests how MXFP4 words in strips are converted to operands of block-scaled mma. Needs no GPU.
#include "backend/cuda/ptx/block_codes.h"

#include <gtest/gtest.h>

#include "tests/backend/cuda/host/strip_words.h"

namespace nibble::cuda {
namespace {

using test::LaneCodes;
using test::random_lane_codes;
using test::strip_word;

void expect_containers(const LaneCodes& codes) {
  uint32_t a[4]{};
  unpack_containers(strip_word(codes, 0), strip_word(codes, 1), a);
  for (int c = 0; c < 8; ++c) {
    const int place = place_of(BlockForm::kMxfp8, c);
    EXPECT_EQ(a[2 * (place / 4)] >> 8 * (place % 4) & 0xFF, codes.upper[c] << 2) << c;
    EXPECT_EQ(a[2 * (place / 4) + 1] >> 8 * (place % 4) & 0xFF, codes.lower[c] << 2) << c;
  }
}

TEST(CudaBlockCodes, EveryCodeAtEveryPlaceBecomesItsContainer) {
  for (int c = 0; c < 16; ++c)
    for (uint8_t code = 0; code < 16; ++code)
      for (const uint8_t others : {uint8_t{0}, uint8_t{15}}) {
        LaneCodes codes;
        for (int i = 0; i < 8; ++i) codes.upper[i] = codes.lower[i] = others;
        (c < 8 ? codes.upper : codes.lower)[c % 8] = code;
        expect_containers(codes);
      }
}

TEST(CudaBlockCodes, RandomWordsBecomeContainers) {
  for (uint64_t seed = 0; seed < 4096; ++seed) expect_containers(random_lane_codes(seed));
}

TEST(CudaBlockCodes, RandomWordsBecomeNibbles) {
  for (uint64_t seed = 0; seed < 4096; ++seed) {
    const LaneCodes groups[]{random_lane_codes(2 * seed), random_lane_codes(2 * seed + 1)};
    const uint32_t words[]{strip_word(groups[0], 0), strip_word(groups[0], 1), strip_word(groups[1], 0),
                           strip_word(groups[1], 1)};
    uint32_t a[4]{};
    unpack_nibbles(words, a);
    for (int group = 0; group < 2; ++group)
      for (int c = 0; c < 8; ++c) {
        const int shift = 4 * place_of(BlockForm::kMxfp4, c);
        EXPECT_EQ(a[2 * group] >> shift & 15, groups[group].upper[c]) << group << ", " << c;
        EXPECT_EQ(a[2 * group + 1] >> shift & 15, groups[group].lower[c]) << group << ", " << c;
      }
  }
}

TEST(CudaBlockCodes, EightNeighboursHaveEightPlaces) {
  for (const BlockForm form : {BlockForm::kMxfp8, BlockForm::kMxfp4}) {
    unsigned taken = 0;
    for (int c = 0; c < 8; ++c) taken |= 1u << place_of(form, c);
    EXPECT_EQ(taken, 0xFFu);
  }
}

// A word has four scales (strips.h): of rows g and g + 8 for columns 0-31 of a tile, then of rows g and g + 8
// for columns 32-63. Each scale is stored as its E8M0 value plus 126.
TEST(CudaBlockCodes, LanesSayTheScalesOfTheirRow) {
  constexpr uint32_t kWord{0xC2B1A090u};
  EXPECT_EQ(weight_scales(kWord, 12), 0x33123312u);  // lane 4 g: row g
  EXPECT_EQ(weight_scales(kWord, 13), 0x44224422u);  // lane 4 g + 1: row g + 8
}

// Tests each scale from the smallest (2^-127) to the largest that the layout allows. Another scale in the
// same word is the smallest or the largest.
TEST(CudaBlockCodes, NoScaleBorrowsFromAnother) {
  for (uint32_t scale = 0; scale <= kLargestScale; ++scale)
    for (const uint32_t other : {0u, uint32_t{kLargestScale}}) {
      const uint32_t word = (scale | other << 16) + kScaleOffset * 0x01010101u;
      EXPECT_EQ(weight_scales(word, 0), (scale | other << 8) * 0x00010001u) << scale << ", " << other;
      EXPECT_EQ(weight_scales(word, 1), 0u) << scale << ", " << other;
    }
}

}  // namespace
}  // namespace nibble::cuda
