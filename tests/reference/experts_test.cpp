#include "reference/experts.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/swiglu.h"
#include "tests/reference/operands.h"

namespace nibble::reference {
namespace {

double swiglu_of(double gate, double linear) { return gate / (1 + std::exp(-1.702 * gate)) * (linear + 1); }

float swiglu_one(float gate, float linear) {
  const std::vector<float> u{gate, linear};
  const Array<float, 2> h({1, 1});
  swiglu({rows_view(u, 1), 7, h});
  return h.view()(0, 0);
}

TEST(Swiglu, GateAndLinearPartAlternate) {
  const std::vector<float> u{1, 2, 3, 4};
  const Array<float, 2> h({1, 2});
  swiglu({rows_view(u, 1), 7, h});
  EXPECT_FLOAT_EQ(h.view()(0, 0), static_cast<float>(swiglu_of(1, 2)));
  EXPECT_FLOAT_EQ(h.view()(0, 1), static_cast<float>(swiglu_of(3, 4)));
}

TEST(Swiglu, TheGateIsClampedAboveOnlyAndTheLinearPartOnBothSides) {
  EXPECT_FLOAT_EQ(swiglu_one(8, 1), static_cast<float>(swiglu_of(7, 1)));
  EXPECT_FLOAT_EQ(swiglu_one(-8, 1), static_cast<float>(swiglu_of(-8, 1)));
  EXPECT_FLOAT_EQ(swiglu_one(1, 8), static_cast<float>(swiglu_of(1, 7)));
  EXPECT_FLOAT_EQ(swiglu_one(1, -8), static_cast<float>(swiglu_of(1, -7)));
  EXPECT_EQ(swiglu_one(-1e30f, 0), 0);
}

// Three experts of hidden size 2 and intermediate size 1. Expert e has gate = 1 and linear part = e + h[0],
// where h is its input, and returns (SwiGLU of the two, 10 e).
struct ThreeExperts {
  std::vector<float> gate_up, gate_up_bias, down, down_bias;
  LayerWeights layer;

  ThreeExperts() {
    for (int e = 0; e < 3; ++e) {
      gate_up.insert(gate_up.end(), {0, 0, /**/ 1, 0});
      gate_up_bias.insert(gate_up_bias.end(), {1, static_cast<float>(e)});
      down.insert(down.end(), {1, 0});
      down_bias.insert(down_bias.end(), {0, 10.0f * static_cast<float>(e)});
    }
    layer.gate_up = {{2, 2, Elements{.format = Format::kF32, .data = gate_up.data()}},
                     {gate_up_bias.data(), Format::kF32, 2}};
    layer.down = {{2, 1, Elements{.format = Format::kF32, .data = down.data()}},
                  {down_bias.data(), Format::kF32, 2}};
  }
};

TEST(Experts, AddsTheWeightedOutputsBiasesIncluded) {
  const ThreeExperts three;
  const std::vector<float> normed{0.5f, 9, /**/ -1, 9};
  const std::vector<int> chosen{2, 1, /**/ 0, 2};
  const std::vector<float> weights{0.75f, 0.25f, /**/ 0.5f, 0.5f};
  const Array<float, 2> x({2, 2});
  x.view()(0, 0) = 100;
  experts({rows_view(normed, 2), View<const int, 2>(chosen.data(), {2, 2}), rows_view(weights, 2),
           three.layer, 3, 7, x});
  EXPECT_FLOAT_EQ(x.view()(0, 0),
                  static_cast<float>(100 + 0.75 * swiglu_of(1, 2.5) + 0.25 * swiglu_of(1, 1.5)));
  EXPECT_FLOAT_EQ(x.view()(0, 1), 0.75f * 20 + 0.25f * 10);
  EXPECT_FLOAT_EQ(x.view()(1, 0), static_cast<float>(0.5 * swiglu_of(1, -1) + 0.5 * swiglu_of(1, 1)));
  EXPECT_FLOAT_EQ(x.view()(1, 1), 10);
}

}  // namespace
}  // namespace nibble::reference
