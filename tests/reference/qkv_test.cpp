#include "reference/qkv.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/embed.h"
#include "reference/unembed.h"
#include "tests/reference/operands.h"

namespace nibble::reference {
namespace {

// The hidden size is 2; there are two query heads and one KV head, of 2 elements each. Every projection
// copies h, the normalised x, and adds its own bias.
TEST(Qkv, RotatesQueriesAndKeysButNotValuesAndAppendsAtThePosition) {
  const std::vector<float> scale{1, 1}, twice{1, 0, 0, 1, 1, 0, 0, 1}, once{1, 0, 0, 1};
  const std::vector<float> q_bias{0, 0, 1, 1}, k_bias{2, 2}, v_bias{3, 3};
  LayerWeights layer;
  layer.attention_norm = vector_of(scale);
  layer.q = matrix_of(twice, 4);
  layer.k = layer.v = matrix_of(once, 2);
  layer.q_bias = vector_of(q_bias);
  layer.k_bias = vector_of(k_bias);
  layer.v_bias = vector_of(v_bias);
  const RopeTable rope{{0.01f}, 2};
  const std::vector<float> x{1, -1};  // the root mean square is 1, so h = x
  const OneSequenceKv kv(2, 1, 2);
  const BatchRow rows[]{kv.row(40)};
  const Array<float, 3> q({1, 2, 2});
  qkv({rows_view(x, 1), rows, layer, 0, rope, q, kv.layer()});

  const double cosine = 2 * std::cos(0.4), sine = 2 * std::sin(0.4);
  const auto expect_turned = [&](const float* pair, double x1, double x2) {
    EXPECT_NEAR(pair[0], x1 * cosine - x2 * sine, 1e-6);
    EXPECT_NEAR(pair[1], x2 * cosine + x1 * sine, 1e-6);
  };
  expect_turned(q.view().row(0, 0), 1, -1);
  expect_turned(q.view().row(0, 1), 2, 0);
  expect_turned(kv.key(40), 3, 1);
  EXPECT_EQ(kv.value(40)[0], 4);
  EXPECT_EQ(kv.value(40)[1], 2);
  for (const int neighbour : {39, 41}) EXPECT_EQ(kv.key(neighbour)[0], 0) << neighbour;
}

TEST(Embed, CopiesTheRowOfEachToken) {
  const std::vector<float> embedding{0, 1, /**/ 10, 11, /**/ 20, 21};
  const BatchRow rows[]{{.token = 2}, {.token = 0}};
  const Array<float, 2> x({2, 2});
  embed({rows, matrix_of(embedding, 3), x});
  EXPECT_EQ(x.view()(0, 1), 21);
  EXPECT_EQ(x.view()(1, 1), 1);
}

TEST(Unembed, GivesTheLogitsOfTheRequestedRowsInTheirOrder) {
  const std::vector<float> x{3, 4, /**/ 1, 1, /**/ -2, 2}, scale{1, 2},
      unembedding{1, 0, /**/ 0, 1, /**/ 1, 1};
  const int outputs[]{1, 2};
  const Array<float, 2> normed({3, 2}), logits({2, 3});
  unembed({rows_view(x, 3), outputs, vector_of(scale), matrix_of(unembedding, 3), 0, normed, logits});
  const float expected[2][3]{{1, 2, 3}, {-1, 2, 1}};
  for (int row = 0; row < 2; ++row)
    for (int token = 0; token < 3; ++token)
      EXPECT_EQ(logits.view()(row, token), expected[row][token]) << row << token;
  EXPECT_FLOAT_EQ(normed.view()(0, 0), 3 / std::sqrt(12.5f));  // rows without logits are normalised too
}

}  // namespace
}  // namespace nibble::reference
