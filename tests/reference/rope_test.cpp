#include "reference/rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/rope.h"
#include "reference/array.h"

namespace nibble::reference {
namespace {

// theta 150,000; YaRN with factor 32 from a context of 4,096. The corners, which are the first and last
// dimension pair of its blend, are not rounded.
const RopeConfig kGptOss{};

// Results of the formula in arbitrary precision, rounded to ten digits. Half a unit of the last digit is a
// relative error of 5e-10; float32 adds 6e-8.
constexpr double kExact[32]{1.0,
                            6.890443059e-01,
                            4.747820555e-01,
                            3.271458719e-01,
                            2.254180002e-01,
                            1.553229895e-01,
                            1.070244215e-01,
                            7.374456821e-02,
                            5.081327482e-02,
                            3.170569618e-02,
                            1.933500113e-02,
                            1.159204926e-02,
                            6.794959490e-03,
                            3.860359317e-03,
                            2.093792379e-03,
                            1.052602101e-03,
                            4.564839192e-04,
                            1.293187012e-04,
                            3.830881237e-05,
                            2.639646903e-05,
                            1.818833668e-05,
                            1.253256982e-05,
                            8.635495875e-06,
                            5.950239261e-06,
                            4.099978482e-06,
                            2.825066827e-06,
                            1.946596211e-06,
                            1.341291035e-06,
                            9.242089502e-07,
                            6.368209146e-07,
                            4.387978251e-07,
                            3.023511428e-07};

TEST(Rope, FrequenciesOfGptOssAreThoseOfTheFormula) {
  const RopeTable table = make_rope_table(kGptOss, 64);
  ASSERT_EQ(table.frequencies.size(), 32u);
  for (int i = 0; i < 32; ++i) EXPECT_NEAR(table.frequencies[i], kExact[i], kExact[i] * 6.1e-8) << i;
  EXPECT_NEAR(table.concentration, 1.3465735902799727, 1e-15);
}

// If the corners of the blend are rounded to whole pairs (8 and 18), as in llama.cpp, the frequencies between
// them change by up to 76 %.
TEST(Rope, TruncatedCornersAreWholeDimensions) {
  RopeConfig truncated = kGptOss;
  truncated.truncate = true;
  const RopeTable table = make_rope_table(truncated, 64);
  const double expected[9]{3.162075228e-02, 1.945096754e-02, 1.179219110e-02,
                           7.015713911e-03, 4.069554715e-03, 2.277271936e-03,
                           1.206130969e-03, 5.809475019e-04, 2.279477958e-04};
  for (int i = 0; i < 32; ++i) {
    const double frequency = i >= 9 && i <= 17 ? expected[i - 9] : kExact[i];
    EXPECT_NEAR(table.frequencies[i], frequency, frequency * 6.1e-8) << i;
  }
}

// Backends rotate by the frequencies of model/rope.h, which shares no code with the reference.
TEST(Rope, TheFrequenciesOfBackendsAreThoseOfTheReferenceForAnySettings) {
  for (const bool truncate : {false, true})
    for (const double factor : {1.0, 8.0, 32.0})
      for (const double theta : {10'000.0, 150'000.0})
        for (const int context : {32, 1024, 4096, 131'072})
          for (const int head_dim : {32, 64, 128}) {
            RopeConfig config = kGptOss;
            config.truncate = truncate;
            config.factor = factor;
            config.theta = theta;
            config.original_context = context;
            const RopeFrequencies ours = rope_frequencies(config, head_dim);
            const RopeTable expected = make_rope_table(config, head_dim);
            EXPECT_FLOAT_EQ(ours.concentration, static_cast<float>(expected.concentration));
            ASSERT_EQ(ours.frequencies.size(), expected.frequencies.size());
            for (size_t i = 0; i < ours.frequencies.size(); ++i)
              EXPECT_FLOAT_EQ(ours.frequencies[i], expected.frequencies[i])
                  << "pair " << i << ", truncate " << truncate << ", factor " << factor << ", theta " << theta
                  << ", context " << context << ", head_dim " << head_dim;
          }
}

TEST(Rope, AFactorOfOneIsPlainRope) {
  RopeConfig plain = kGptOss;
  plain.factor = 1;
  const RopeTable table = make_rope_table(plain, 64);
  EXPECT_EQ(table.concentration, 1);
  for (int i = 0; i < 32; ++i)
    EXPECT_FLOAT_EQ(table.frequencies[i], static_cast<float>(std::pow(150000.0, -i / 32.0)));
}

TEST(Rope, PairsAreHalfAHeadApartAndTurnTogether) {
  const RopeTable quarter_turns{{1.57079632679f, 0}, 1};  // the first pair turns by 90 degrees per position
  const Array<float, 3> x({1, 2, 4});
  for (int head = 0; head < 2; ++head)
    for (int i = 0; i < 4; ++i) x.view()(0, head, i) = static_cast<float>(10 * head + i + 1);
  const int positions[]{1};
  rotate({x, positions, quarter_turns});
  for (int head = 0; head < 2; ++head) {
    const float first = static_cast<float>(10 * head + 1), second = static_cast<float>(10 * head + 3);
    EXPECT_NEAR(x.view()(0, head, 0), -second, 1e-5);  // (x1, x2) -> (-x2, x1)
    EXPECT_NEAR(x.view()(0, head, 2), first, 1e-5);
    EXPECT_EQ(x.view()(0, head, 1), first + 1);  // frequency 0 does not rotate
    EXPECT_EQ(x.view()(0, head, 3), second + 1);
  }
}

TEST(Rope, ConcentrationScalesEveryPositionTheFirstIncluded) {
  const RopeTable table{{0.5f}, 3};
  const Array<float, 3> x({2, 1, 2});
  x.view()(0, 0, 0) = x.view()(1, 0, 0) = 1;
  const int positions[]{0, 2};
  rotate({x, positions, table});
  EXPECT_EQ(x.view()(0, 0, 0), 3);
  EXPECT_EQ(x.view()(0, 0, 1), 0);
  EXPECT_FLOAT_EQ(x.view()(1, 0, 0), static_cast<float>(3 * std::cos(1.0)));
  EXPECT_FLOAT_EQ(x.view()(1, 0, 1), static_cast<float>(3 * std::sin(1.0)));
}

}  // namespace
}  // namespace nibble::reference
