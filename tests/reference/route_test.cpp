#include "reference/route.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/reference/operands.h"

namespace nibble::reference {
namespace {

struct Chosen {
  std::vector<int> experts;
  std::vector<float> weights;
};

// Routes with a router matrix of zeros, so the logits are its bias.
Chosen route_by_bias(const std::vector<float>& bias, int experts_per_token) {
  const std::vector<float> x{1, 1}, scale{1, 1}, zero(2 * bias.size());
  LayerWeights layer;
  layer.mlp_norm = vector_of(scale);
  layer.router = matrix_of(zero, static_cast<int>(bias.size()));
  layer.router_bias = vector_of(bias);
  const Array<float, 2> normed({1, 2}), weights({1, experts_per_token});
  const Array<int, 2> experts({1, experts_per_token});
  route({rows_view(x, 1), layer, 1e-5f, normed, experts, weights});
  const int* first = experts.view().data;
  return {{first, first + experts_per_token}, {weights.view().data, weights.view().data + experts_per_token}};
}

TEST(Route, ChoosesTheLargestAndNormalisesOverThemAlone) {
  const Chosen chosen = route_by_bias({0, std::log(3.0f), 50 - 100.0f, std::log(4.0f), std::log(2.0f)}, 3);
  EXPECT_EQ(chosen.experts, (std::vector<int>{3, 1, 4}));
  EXPECT_FLOAT_EQ(chosen.weights[0], 4 / 9.0f);
  EXPECT_FLOAT_EQ(chosen.weights[1], 3 / 9.0f);
  EXPECT_FLOAT_EQ(chosen.weights[2], 2 / 9.0f);
}

TEST(Route, OfEqualLogitsTheLowerIndexWins) {
  EXPECT_EQ(route_by_bias({1, 2, 2, 1, 2, 1}, 2).experts, (std::vector<int>{1, 2}));
  EXPECT_EQ(route_by_bias({1, 2, 1, 1}, 3).experts, (std::vector<int>{1, 0, 2}));
}

TEST(Route, LargeLogitsDoNotOverflow) {
  const Chosen chosen = route_by_bias({1000, 1000, -1000}, 2);
  EXPECT_FLOAT_EQ(chosen.weights[0], 0.5f);
  EXPECT_FLOAT_EQ(chosen.weights[1], 0.5f);
}

TEST(Route, GatesTheNormedTokensAndHandsThemOn) {
  const std::vector<float> x{3, 4, /**/ 4, 3}, scale{1, -1}, router{1, 0, /**/ 0, 1, /**/ 0, -1},
      bias{0, 0, 0};
  LayerWeights layer;
  layer.mlp_norm = vector_of(scale);
  layer.router = matrix_of(router, 3);
  layer.router_bias = vector_of(bias);
  const Array<float, 2> normed({2, 2}), weights({2, 1});
  const Array<int, 2> experts({2, 1});
  route({rows_view(x, 2), layer, 0, normed, experts, weights});
  const float root_mean_square = std::sqrt(12.5f);
  EXPECT_FLOAT_EQ(normed.view()(0, 0), 3 / root_mean_square);
  EXPECT_FLOAT_EQ(normed.view()(1, 1), -3 / root_mean_square);
  EXPECT_EQ(experts.view()(0, 0), 2);
  EXPECT_EQ(experts.view()(1, 0), 0);
  EXPECT_EQ(weights.view()(0, 0), 1);
}

}  // namespace
}  // namespace nibble::reference
