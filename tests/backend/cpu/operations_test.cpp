// Compares every operation except attention with the reference, for the kernels of every instruction set that
// this machine supports.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/cpu/activations.h"
#include "backend/cpu/attention/rope.h"
#include "backend/cpu/dense/embed.h"
#include "backend/cpu/dense/project.h"
#include "backend/cpu/dense/qkv.h"
#include "backend/cpu/dense/unembed.h"
#include "backend/cpu/experts/experts.h"
#include "backend/cpu/experts/route.h"
#include "backend/cpu/split_order.h"
#include "model/checkpoint/synthetic.h"
#include "model/quantize.h"
#include "reference/array.h"
#include "reference/embed.h"
#include "reference/experts.h"
#include "reference/linear.h"
#include "reference/qkv.h"
#include "reference/route.h"
#include "reference/unembed.h"
#include "tests/backend/cpu/operations.h"
#include "tests/ops/shapes.h"

namespace nibble::cpu {
namespace {

using reference::Array;

INSTANTIATE_TEST_SUITE_P(, Operations, testing::ValuesIn(isas_of_their_own()), name_of);

TEST_P(Operations, EmbedTakesRowsAsTheyAre) {
  const Config& config = kConfigs[0];
  const Weights weights = make_synthetic(config, "test");
  const OneSequence sequence(config, 33, 0);
  const Activations a = activations(config, 33);
  const Array<float, 2> expected({33, config.hidden});
  embed({rows_of(sequence.batch), weights.embedding, a.x});
  reference::embed({reference::rows_of(sequence.batch), weights.embedding, expected});
  expect_near(a.x, expected, 0, "x");
}

// Returns a layer of random weights whose dense matrices have the format `dense`.
std::shared_ptr<const Weights> weights_of(const Config& config, Format dense) {
  ThreadPool pool(1);
  return quantise_dense(std::make_shared<const Weights>(make_synthetic(config, "test")),
                        {dense, dense, dense}, pool);
}
constexpr Format kDenseFormats[]{Format::kBf16, Format::kE4m3, Format::kMxfp4};

void expect_qkv(const Machine& machine, const Activations& a, const Config& config, const Weights& weights,
                Format kv_format, int num_tokens) {
  const OneSequence sequence(config, num_tokens, 45);
  const auto rows = rows_of(sequence.batch);
  const std::vector<float> elements = random_floats(size_t{1} * num_tokens * config.hidden, 11);
  const View<const float, 2> x = rows_view(elements, num_tokens);

  const KvCache kv_cache(config, kv_format, sequence.num_pages());
  rotations({rope_frequencies(config.rope, config.head_dim), rows, a.cosines, a.sines});
  qkv({machine,
       x,
       rows,
       weights.layers[0],
       nullptr,
       config.rms_eps,
       a.cosines,
       a.sines,
       a.normed,
       {},
       a.q,
       kv_cache.layer(0)});

  const reference::KvCache reference_cache(config, sequence.num_pages());
  const Array<float, 3> q({num_tokens, config.num_heads, config.head_dim});
  const auto reference_rows = reference::rows_of(sequence.batch);
  reference::qkv({x, reference_rows, weights.layers[0], config.rms_eps,
                  reference::make_rope_table(config.rope, config.head_dim), q, reference_cache.layer(0)});

  const ptrdiff_t num_q = ptrdiff_t{1} * num_tokens * config.num_heads;
  const View<const float, 2> split_q(a.q.data, {num_q, padded(config.head_dim)});
  expect_near(in_natural_order(split_q, num_q, config.head_dim), {q.view().data, {num_q, config.head_dim}},
              // Rotation adds the rounding of cos and sin, about 2^-23.
              tolerance(config.hidden), "q");
  // Rounding is to nearest: to 8 significant bits in BF16, and to 4 in E4M3, whose step is 2^-9 below 2^-6.
  const double half_step = kv_format == Format::kE4m3 ? 0x1p-4 : 0x1p-8;
  const double least_half_step = kv_format == Format::kE4m3 ? 0x1p-10 : 0;
  for (int t = 0; t < num_tokens; ++t)
    for (int head = 0; head < config.num_kv_heads; ++head) {
      const int position = rows[t].position;
      const LayerKv& kv = kv_cache.layer(0);
      const auto expect_rounded = [&](const std::byte* page, const float* expected) {
        double norm = 0;
        for (int d = 0; d < config.head_dim; ++d) norm += std::pow(expected[d], 2);
        for (int d = 0; d < config.head_dim; ++d)
          ASSERT_NEAR(element_of(kv, page, position, d), expected[d],
                      std::max(std::abs(expected[d]) * half_step, least_half_step) +
                          tolerance(config.hidden) * std::sqrt(norm));
      };
      expect_rounded(kv.keys({sequence.pages}, position, head),
                     reference_cache.layer(0).key(reference_rows[t], head, position));
      expect_rounded(kv.values({sequence.pages}, position, head),
                     reference_cache.layer(0).value(reference_rows[t], head, position));
    }
}

TEST_P(Operations, QkvProjectsRotatesAndAppends) {
  for (const Config& config : kConfigs)
    for (const Format dense : kDenseFormats) {
      const auto weights = weights_of(config, dense);
      for (const int num_tokens : shapes::kTokens)
        expect_qkv(machine_, activations(config, num_tokens), config, *weights, Format::kBf16, num_tokens);
      for (const int num_tokens : {1, 33})
        expect_qkv(machine_, activations(config, num_tokens), config, *weights, Format::kE4m3, num_tokens);
    }
}

// 448 is the largest E4M3 number. A value halfway between two codes rounds to the even code: 17 to 16, 19 to
// 20.
TEST(KvCache, RoundsFp8ToNearestEvenAndSaturates) {
  const Config config = config_of(32, 32, 1, 1, 16, 4, 1);
  const KvCache cache(config, Format::kE4m3, 1);
  const LayerKv& kv = cache.layer(0);
  const std::vector<PageId> pages{PageId{0}};
  const std::vector<float> row{0,    -0.0f, 1,       17,       19,   -17, 448, 460,
                               1e9f, -1e9f, 0x1p-9f, 0x1p-10f, 0.3f, 500, 2,   3};
  const std::vector<float> stored{0, 0, 1, 16, 20, -16, 448, 448, 448, -448, 0x1p-9f, 0, 0.3125f, 448, 2, 3};
  kv.store(row.data(), kv.values({pages}, 5, 0), 5);
  for (int d = 0; d < 16; ++d) EXPECT_EQ(element_of(kv, kv.values({pages}, 5, 0), 5, d), stored[d]) << d;
}

TEST_P(Operations, ProjectAddsToTheResidual) {
  for (const Config& config : kConfigs)
    for (const Format dense : kDenseFormats) {
      const auto weights = weights_of(config, dense);
      for (const int num_tokens : shapes::kTokens) {
        const LayerWeights& layer = weights->layers[0];
        const std::vector<float> attended = random_floats(size_t{1} * num_tokens * layer.o.cols, 31);
        const std::vector<float> split = in_split_order(attended, layer.o.cols);
        std::vector<float> x = random_floats(size_t{1} * num_tokens * config.hidden, 32), expected = x;
        project({machine_,
                 rows_view(split, num_tokens),
                 layer.o,
                 nullptr,
                 {},
                 layer.o_bias,
                 View<float, 2>(x.data(), {num_tokens, config.hidden})});
        reference::project({rows_view(attended, num_tokens), layer.o, layer.o_bias,
                            View<float, 2>(expected.data(), {num_tokens, config.hidden})});
        expect_near(rows_view(x, num_tokens), rows_view(expected, num_tokens), tolerance(layer.o.cols), "x");
      }
    }
}

TEST_P(Operations, RouteChoosesAndWeighsTheSameExperts) {
  for (const Config& config : kConfigs) {
    const Weights weights = make_synthetic(config, "test");
    for (const int num_tokens : shapes::kTokens) {
      const LayerWeights& layer = weights.layers[0];
      const std::vector<float> elements = random_floats(size_t{1} * num_tokens * config.hidden, 41);
      const View<const float, 2> x = rows_view(elements, num_tokens);
      const Activations a = activations(config, num_tokens);
      route({machine_, x, layer, config.rms_eps, a.router_logits, a.normed, a.chosen, a.chosen_weights});

      const Array<float, 2> normed({num_tokens, config.hidden}),
          chosen_weights({num_tokens, config.experts_per_token});
      const Array<int, 2> chosen({num_tokens, config.experts_per_token});
      reference::route({x, layer, config.rms_eps, normed, chosen, chosen_weights});
      expect_near(in_natural_order(a.normed, num_tokens, config.hidden), normed, tolerance(config.hidden),
                  "normed");
      expect_near(a.chosen_weights, chosen_weights, tolerance(config.hidden), "weights");
      for (int t = 0; t < num_tokens; ++t)
        for (int k = 0; k < config.experts_per_token; ++k)
          ASSERT_EQ(a.chosen(t, k), chosen.view()(t, k))
              << "token " << t << " of " << num_tokens << ", place " << k;
    }
  }
}

TEST_P(Operations, OfEqualRouterLogitsTheLowerExpertWins) {
  const Config config = config_of(32, 32, 2, 1, 32, 8, 3);
  const Weights weights = make_synthetic(config, "test");
  LayerWeights layer = weights.layers[0];
  const std::vector<uint16_t> zeros(8 * 32);
  const std::vector<float> biases{1, 3, 2, 3, 0, 2, 2, 2}, x(32, 1);
  layer.router.stored = Elements{.data = zeros.data()};
  layer.router_bias = vector_of(biases);
  const Activations a = activations(config, 1);
  route({machine_, rows_view(x, 1), layer, config.rms_eps, a.router_logits, a.normed, a.chosen,
         a.chosen_weights});
  EXPECT_EQ(a.chosen(0, 0), 1);
  EXPECT_EQ(a.chosen(0, 1), 3);
  EXPECT_EQ(a.chosen(0, 2), 2);
  EXPECT_EQ(a.chosen_weights(0, 0), a.chosen_weights(0, 1));
}

void expect_experts(const Machine& machine, const Config& config, const Activations& a, Format format,
                    int num_tokens, Crowding crowding) {
  const int num_experts = config.num_experts, experts_per_token = config.experts_per_token;
  const RandomMatrix up = random_matrix(format, 2 * config.intermediate, config.hidden, 51, num_experts);
  const RandomMatrix down = random_matrix(format, config.hidden, config.intermediate, 52, num_experts);
  const std::vector<float> up_bias = random_floats(size_t{2} * num_experts * config.intermediate, 53);
  const std::vector<float> down_bias = random_floats(size_t{1} * num_experts * config.hidden, 54);
  LayerWeights layer;
  layer.gate_up = experts_of(up, up_bias);
  layer.down = experts_of(down, down_bias);

  const std::vector<float> normed = random_floats(size_t{1} * num_tokens * config.hidden, 55);
  const std::vector<float> split = in_split_order(normed, config.hidden);
  const std::vector<float> weights = random_floats(size_t{1} * num_tokens * experts_per_token, 56);
  const View<const float, 2> weights_view = rows_view(weights, num_tokens);
  const Array<int, 2> chosen({num_tokens, experts_per_token});
  for (int t = 0; t < num_tokens; ++t)
    for (int k = 0; k < experts_per_token; ++k)
      chosen.view()(t, k) = (crowding == Crowding::kSpread ? 5 * t + k : num_experts - 1 - k) % num_experts;

  std::vector<float> x = random_floats(size_t{1} * num_tokens * config.hidden, 57), expected = x;
  for (const View<float, 2>& view : {a.gated}) {
    for (ptrdiff_t row = 0; row < view.shape[0]; ++row)
      for (ptrdiff_t i = 0; i < config.intermediate; ++i) view(row, split_index(i)) = kPoison;
  }
  experts({machine,
           rows_view(split, num_tokens),
           chosen,
           weights_view,
           layer,
           nullptr,
           {0, num_experts},
           config.swiglu_limit,
           a.gated,
           {},
           {},
           a.down_panels,
           View<float, 2>(x.data(), {num_tokens, config.hidden})});
  reference::experts({rows_view(normed, num_tokens), chosen, weights_view, layer, num_experts,
                      config.swiglu_limit, View<float, 2>(expected.data(), {num_tokens, config.hidden})});
  // Swiglu has a slope of at most about 8 + 1 (at the limits of 7), and the second matrix product adds its
  // own rounding.
  expect_near(rows_view(x, num_tokens), rows_view(expected, num_tokens),
              9 * tolerance(config.hidden) + tolerance(config.intermediate), "x");
}

TEST_P(Operations, ExpertsAddTheirWeightedSumForAnyNumberOfTokens) {
  for (const Config& config : kConfigs) {
    const Activations a = activations(config, 1000);
    for (const int num_tokens : shapes::kTokens)
      for (const Crowding crowding : {Crowding::kSpread, Crowding::kAllTheSame})
        expect_experts(machine_, config, a, Format::kMxfp4, num_tokens, crowding);
  }
}

TEST_P(Operations, ExpertsMayBeBf16) {
  const Activations a = activations(kConfigs[0], 33);
  for (const int num_tokens : {1, 33})
    expect_experts(machine_, kConfigs[0], a, Format::kBf16, num_tokens, Crowding::kSpread);
}

TEST_P(Operations, UnembedGivesTheLogitsOfTheRequestedRows) {
  for (const Config& config : kConfigs)
    for (const Format dense : kDenseFormats) {
      const auto weights = weights_of(config, dense);
      for (const int num_tokens : shapes::kTokens) {
        const std::vector<float> elements = random_floats(size_t{1} * num_tokens * config.hidden, 61);
        const View<const float, 2> x = rows_view(elements, num_tokens);
        std::vector<int> outputs;
        for (int t = num_tokens - 1; t >= 0 && std::ssize(outputs) < kOutputRows; t -= 3)
          outputs.push_back(t);
        const Activations a = activations(config, std::max(num_tokens, kOutputRows));
        unembed({machine_,
                 x,
                 outputs,
                 weights->final_norm,
                 weights->unembedding,
                 nullptr,
                 config.rms_eps,
                 a.normed,
                 {},
                 a.logits});

        const Array<float, 2> normed({num_tokens, config.hidden}),
            logits({std::ssize(outputs), config.vocab});
        reference::unembed(
            {x, outputs, weights->final_norm, weights->unembedding, config.rms_eps, normed, logits});
        expect_near(a.logits, logits, tolerance(config.hidden), "logits");
        if (std::ssize(outputs) < kOutputRows) {
          EXPECT_TRUE(std::isnan(a.logits(std::ssize(outputs), 0))) << "wrote beyond the rows asked for";
        }
      }
    }
}

}  // namespace
}  // namespace nibble::cpu
