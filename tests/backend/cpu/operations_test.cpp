// Every operation, with the kernels of every instruction set of this machine, against the same operation of the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/cpu/activations.h"
#include "backend/cpu/attention/attend.h"
#include "backend/cpu/attention/rope.h"
#include "backend/cpu/dense/embed.h"
#include "backend/cpu/dense/project.h"
#include "backend/cpu/dense/qkv.h"
#include "backend/cpu/dense/unembed.h"
#include "backend/cpu/experts/experts.h"
#include "backend/cpu/experts/route.h"
#include "backend/cpu/split_order.h"
#include "core/e4m3.h"
#include "formats/ggml_blocks.h"
#include "formats/mxfp4.h"
#include "model/quantize.h"
#include "model/synthetic.h"
#include "reference/array.h"
#include "reference/attend.h"
#include "reference/embed.h"
#include "reference/experts.h"
#include "reference/linear.h"
#include "reference/qkv.h"
#include "reference/rms_norm.h"
#include "reference/route.h"
#include "reference/unembed.h"
#include "reference/weight_row.h"
#include "tests/backend/cpu/isas.h"
#include "tests/backend/cpu/operands.h"
#include "tests/ops/shapes.h"

namespace nibble::cpu {
namespace {

using reference::Array;

// Odd widths; head groups of 2, 8 and 16 (one pass of attention serves 8); K of 1, 3 and all experts.
Config config_of(int hidden, int intermediate, int num_heads, int num_kv_heads, int head_dim, int num_experts,
                 int experts_per_token) {
  Config config;
  config.num_layers = 1;
  config.hidden = hidden;
  config.intermediate = intermediate;
  config.num_heads = num_heads;
  config.num_kv_heads = num_kv_heads;
  config.head_dim = head_dim;
  config.num_experts = num_experts;
  config.experts_per_token = experts_per_token;
  config.vocab = 100;
  config.layer_kinds = {LayerKind::kFull};
  return config;
}
const Config kConfigs[]{config_of(160, 224, 6, 3, 64, 8, 3), config_of(96, 32, 8, 1, 32, 4, 4),
                        config_of(32, 64, 16, 1, 16, 5, 1)};

// A float32 sum of n products is off by at most 2 (n / 4 + 6) 2^-24 of the sum of their magnitudes (kernels_test.cpp), and
// where signs are random that is about sqrt(n) times the sum itself.
double tolerance(int num_products) {
  return 2 * (num_products / 4.0 + 6) * 0x1p-24 * std::sqrt(num_products);
}

// Rows of elements, compared as vectors: |actual - expected| <= tolerance |expected|. Poison fails.
void expect_near(View<const float, 2> actual, View<const float, 2> expected, double tolerance,
                 const char* what) {
  for (ptrdiff_t t = 0; t < expected.shape[0]; ++t) {
    double error = 0, norm = 0;
    for (ptrdiff_t i = 0; i < expected.shape[1]; ++i) {
      error += std::pow(double{actual(t, i)} - expected(t, i), 2);
      norm += std::pow(expected(t, i), 2);
    }
    ASSERT_GT(norm, 0) << what << ", row " << t;
    ASSERT_LE(std::sqrt(error), tolerance * std::sqrt(norm))
        << what << ", row " << t << " of " << expected.shape[0];
  }
}

View<const float, 2> rows_view(const std::vector<float>& elements, ptrdiff_t num_rows) {
  return {elements.data(), {num_rows, std::ssize(elements) / num_rows}};
}

// The first `width` elements of rows in split order, in natural order.
Array<float, 2> in_natural_order(View<const float, 2> split, ptrdiff_t num_rows, ptrdiff_t width) {
  Array<float, 2> natural({num_rows, width});
  for (ptrdiff_t t = 0; t < num_rows; ++t)
    for (ptrdiff_t i = 0; i < width; ++i) natural.view()(t, i) = split(t, split_index(i));
  return natural;
}

// Runs of T tokens at once as one sequence from `first_position`, in pages whose order is reversed.
struct OneSequence {
  OneSequence(const Config& config, int num_tokens, int first_position)
      : tokens(num_tokens), pages((first_position + num_tokens) / kPageTokens + 1) {
    for (int i = 0; i < num_tokens; ++i) tokens[i] = (7 * i + 3) % config.vocab;
    for (size_t page = 0; page < pages.size(); ++page)
      pages[page] = PageId{static_cast<uint32_t>(pages.size() - 1 - page)};
    run = {.tokens = tokens,
           .first_position = first_position,
           .full = {pages},
           .sliding = {pages},
           .outputs = {}};
    batch = {.runs = {&run, 1}};
  }
  int num_pages() const { return static_cast<int>(pages.size()); }

  std::vector<TokenId> tokens;
  std::vector<PageId> pages;
  Run run;
  Batch batch;
};

class Operations : public testing::TestWithParam<Isa> {
 protected:
  ThreadPool pool_{2};
  const Machine machine_{choose_kernels(GetParam()), pool_};

  // Outputs are poisoned, but for what fills rows up.
  Activations activations(const Config& config, int num_rows, bool int8 = false) const {
    Activations a = make_activations(config, num_rows, pool_.num_threads(), int8);
    for (const View<float, 2>& view : {a.x, a.router_logits, a.chosen_weights, a.logits})
      std::fill_n(view.data, view.shape[0] * view.stride[0], kPoison);
    return a;
  }
};
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

// The layer of a model of random weights, its dense matrices held in one format.
std::shared_ptr<const Weights> weights_of(const Config& config, Format dense) {
  ThreadPool pool(1);
  return quantise_dense(std::make_shared<const Weights>(make_synthetic(config, "test")),
                        {dense, dense, dense}, pool);
}
constexpr Format kDenseFormats[]{Format::kBf16, Format::kE4m3, Format::kMxfp4};
constexpr Format kKvFormats[]{Format::kBf16, Format::kE4m3};

float element_of(const LayerKv& kv, const std::byte* page, int position, int d) {
  const std::byte* row = page + position % kPageTokens * kv.row_bytes();
  return kv.format == Format::kE4m3 ? to_float(reinterpret_cast<const E4m3*>(row)[d])
                                    : to_float(reinterpret_cast<const Bf16*>(row)[d]);
}

void expect_qkv(const Machine& machine, const Activations& a, const Config& config, const Weights& weights,
                Format kv_format, int num_tokens) {
  const OneSequence sequence(config, num_tokens, 45);
  const auto rows = rows_of(sequence.batch);
  const std::vector<float> elements = random_floats(size_t{1} * num_tokens * config.hidden, 11);
  const View<const float, 2> x = rows_view(elements, num_tokens);

  const KvCache kv_cache(config, kv_format, sequence.num_pages(), 0);
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

  const reference::KvCache reference_cache(config, sequence.num_pages(), 0);
  const Array<float, 3> q({num_tokens, config.num_heads, config.head_dim});
  const auto reference_rows = reference::rows_of(sequence.batch);
  reference::qkv({x, reference_rows, weights.layers[0], config.rms_eps,
                  reference::make_rope_table(config.rope, config.head_dim), q, reference_cache.layer(0)});

  const ptrdiff_t num_q = ptrdiff_t{1} * num_tokens * config.num_heads;
  const View<const float, 2> split_q(a.q.data, {num_q, padded(config.head_dim)});
  expect_near(in_natural_order(split_q, num_q, config.head_dim), {q.view().data, {num_q, config.head_dim}},
              // Rotation adds the rounding of cos and sin, 2^-23 or so.
              tolerance(config.hidden), "q");
  // To nearest: 8 bits with the leading one in BF16, 4 in E4M3, whose step is 2^-9 below 2^-6.
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

// 448 is E4M3's largest; halfway between two codes it is the even one: 17 is 16, 19 is 20.
TEST(KvCache, RoundsFp8ToNearestEvenAndSaturates) {
  const Config config = config_of(32, 32, 1, 1, 16, 4, 1);
  const KvCache cache(config, Format::kE4m3, 1, 0);
  const LayerKv& kv = cache.layer(0);
  const std::vector<PageId> pages{PageId{0}};
  const std::vector<float> row{0,    -0.0f, 1,       17,       19,   -17, 448, 460,
                               1e9f, -1e9f, 0x1p-9f, 0x1p-10f, 0.3f, 500, 2,   3};
  const std::vector<float> stored{0, 0, 1, 16, 20, -16, 448, 448, 448, -448, 0x1p-9f, 0, 0.3125f, 448, 2, 3};
  kv.store(row.data(), kv.values({pages}, 5, 0), 5);
  for (int d = 0; d < 16; ++d) EXPECT_EQ(element_of(kv, kv.values({pages}, 5, 0), 5, d), stored[d]) << d;
}

// Several sequences of different lengths, each with its last positions as rows, on pages dealt out in turn.
struct Sequences {
  Sequences(int num_sequences, int length, int num_rows) : pages(num_sequences) {
    uint32_t next = 0;
    for (int s = 0; s < num_sequences; ++s) lengths.push_back(std::max(1, length - 37 * s));
    for (int page = 0; page * kPageTokens < length; ++page)
      for (int s = 0; s < num_sequences; ++s)
        if (page * kPageTokens < lengths[s]) pages[s].push_back(PageId{next++});
    num_pages = static_cast<int>(next);
    for (int s = 0; s < num_sequences; ++s) {
      const int count = std::min(num_rows, lengths[s]);
      tokens.resize(std::max(tokens.size(), size_t{1} * count));
      runs.push_back({.tokens = {tokens.data(), size_t{1} * count},
                      .first_position = lengths[s] - count,
                      .full = {pages[s]},
                      .sliding = {pages[s]},
                      .outputs = {}});
    }
    for (Run& run : runs) run.tokens = {tokens.data(), run.tokens.size()};  // where they lie in the end
  }
  std::vector<int> lengths;
  std::vector<std::vector<PageId>> pages;
  std::vector<TokenId> tokens;
  std::vector<Run> runs;
  int num_pages{0};
};

void expect_attention(const Machine& machine, const Config& config, Format kv_format,
                      const Sequences& sequences, std::optional<int> window) {
  const Batch batch{.runs = sequences.runs};
  const auto rows = rows_of(batch);
  const ptrdiff_t num_rows = std::ssize(rows);
  const auto reference_rows = reference::rows_of(batch);

  const KvCache kv_cache(config, kv_format, sequences.num_pages, 0);
  const reference::KvCache reference_cache(config, sequences.num_pages, 0);
  const LayerKv& kv = kv_cache.layer(0);
  const reference::LayerKv& reference_kv = reference_cache.layer(0);
  uint64_t counter = 0;
  ptrdiff_t row = 0;
  for (const Run& run : sequences.runs) {  // the same keys and values in both caches, poison behind the last
    const int length = run.first_position + static_cast<int>(run.tokens.size());
    for (int position = 0; position < std::ssize(run.full.pages) * kPageTokens; ++position)
      for (int head = 0; head < config.num_kv_heads; ++head)
        for (const bool is_key : {true, false}) {
          std::vector<float> elements(config.head_dim, kPoison);
          if (position < length)
            for (float& element : elements) element = static_cast<float>(2 * random_unit(21, counter++) - 1);
          std::byte* page = is_key ? kv.keys(run.full, position, head) : kv.values(run.full, position, head);
          kv.store(elements.data(), page, position);
          float* to = is_key ? reference_kv.key(reference_rows[row], head, position)
                             : reference_kv.value(reference_rows[row], head, position);
          for (int d = 0; d < config.head_dim; ++d) to[d] = element_of(kv, page, position, d);
        }
    row += std::ssize(run.tokens);
  }

  const std::vector<float> q = random_floats(num_rows * config.num_heads * config.head_dim, 22);
  const std::vector<float> split_q = in_split_order(q, config.head_dim);
  const std::vector<float> sinks = random_floats(config.num_heads, 23);
  const ptrdiff_t width = ptrdiff_t{1} * config.num_heads * config.head_dim;
  std::vector<float> attended(num_rows * padded(width), kPoison);
  attend({machine,
          View<const float, 3>(split_q.data(), {num_rows, config.num_heads, padded(config.head_dim)}), rows,
          kv, vector_of(sinks), window, View<float, 2>(attended.data(), {num_rows, padded(width)})});
  const Array<float, 2> expected({num_rows, width});
  reference::attend({View<const float, 3>(q.data(), {num_rows, config.num_heads, config.head_dim}),
                     reference_rows, reference_kv, vector_of(sinks), window, expected});

  // Weights sum to at most 1 and |v| <= 1. Scores are off by 2 (D / 4 + 6) 2^-24 |q . k| / 8 < 2e-5, which changes a weight
  // by as much of itself; adding n positions in turn is off by n 2^-24 < 6e-5.
  const Array<float, 2> actual = in_natural_order(rows_view(attended, num_rows), num_rows, width);
  for (ptrdiff_t t = 0; t < num_rows; ++t)
    for (ptrdiff_t i = 0; i < width; ++i)
      ASSERT_NEAR(actual.view()(t, i), expected.view()(t, i), 1e-4)
          << "row " << t << " at position " << rows[t].position << ", element " << i << ", window "
          << window.value_or(-1) << ", " << sequences.runs.size() << " sequences";
}

TEST_P(Operations, AttendSeesEachWindow) {
  for (const Config& config : kConfigs)
    for (const int window : shapes::kWindows)
      for (const Format kv : kKvFormats)
        expect_attention(machine_, config, kv, Sequences(1, 200, 70), window);
}

TEST_P(Operations, AttendSeesAllOfASequenceOfAnyLength) {
  for (const Config& config : kConfigs)
    for (const int length : shapes::kTokens)
      for (const Format kv : kKvFormats)
        expect_attention(machine_, config, kv, Sequences(1, length, 5), std::nullopt);
}

TEST_P(Operations, AttendKeepsSequencesApart) {
  for (const int num_sequences : shapes::kNumSequences)
    for (const int num_rows : {1, 33})
      for (const std::optional<int> window : {std::optional<int>(100), std::optional<int>()})
        for (const Format kv : kKvFormats)
          expect_attention(machine_, kConfigs[0], kv, Sequences(num_sequences, 300, num_rows), window);
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
  layer.router.data = zeros.data();
  layer.router_bias = vector_of(biases);
  const Activations a = activations(config, 1);
  route({machine_, rows_view(x, 1), layer, config.rms_eps, a.router_logits, a.normed, a.chosen,
         a.chosen_weights});
  EXPECT_EQ(a.chosen(0, 0), 1);
  EXPECT_EQ(a.chosen(0, 1), 3);
  EXPECT_EQ(a.chosen(0, 2), 2);
  EXPECT_EQ(a.chosen_weights(0, 0), a.chosen_weights(0, 1));
}

// Which experts token t chose: all apart by steps, or everyone the same ones.
enum class Crowding { kSpread, kAllTheSame };

void expect_experts(const Machine& machine, const Config& config, const Activations& a, Format format,
                    int num_tokens, Crowding crowding) {
  const int num_experts = config.num_experts, num_chosen = config.experts_per_token;
  const RandomMatrix up = random_matrix(format, 2 * config.intermediate, config.hidden, 51, num_experts);
  const RandomMatrix down = random_matrix(format, config.hidden, config.intermediate, 52, num_experts);
  const std::vector<float> up_bias = random_floats(size_t{2} * num_experts * config.intermediate, 53);
  const std::vector<float> down_bias = random_floats(size_t{1} * num_experts * config.hidden, 54);
  LayerWeights layer;
  layer.gate_up = experts_of(up, up_bias);
  layer.down = experts_of(down, down_bias);

  const std::vector<float> normed = random_floats(size_t{1} * num_tokens * config.hidden, 55);
  const std::vector<float> split = in_split_order(normed, config.hidden);
  const std::vector<float> weights = random_floats(size_t{1} * num_tokens * num_chosen, 56);
  const View<const float, 2> weights_view = rows_view(weights, num_tokens);
  const Array<int, 2> chosen({num_tokens, num_chosen});
  for (int t = 0; t < num_tokens; ++t)
    for (int k = 0; k < num_chosen; ++k)
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
           num_experts,
           config.swiglu_limit,
           a.gated,
           {},
           {},
           a.down_panels,
           View<float, 2>(x.data(), {num_tokens, config.hidden})});
  reference::experts({rows_view(normed, num_tokens), chosen, weights_view, layer, num_experts,
                      config.swiglu_limit, View<float, 2>(expected.data(), {num_tokens, config.hidden})});
  // swiglu's slope is at most about 8 + 1 (at the limits of 7), and the second contraction adds its own rounding.
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

// The elements of experts' matrices, or of rows of int8 activations.
std::vector<double> elements_of(const RandomMatrix& experts, int num_experts) {
  std::vector<double> elements;
  for (ptrdiff_t row = 0; row < ptrdiff_t{1} * num_experts * experts.matrix.rows; ++row)
    for (ptrdiff_t col = 0; col < experts.matrix.cols; ++col) elements.push_back(experts.at(row, col));
  return elements;
}
std::vector<double> elements_of(View<const Q8Block, 2> blocks, ptrdiff_t num_rows) {
  std::vector<double> elements;
  for (ptrdiff_t row = 0; row < num_rows; ++row)
    for (ptrdiff_t b = 0; b < blocks.shape[1]; ++b)
      for (const int8_t code : blocks(row, b).codes)
        elements.push_back(2.0 * blocks(row, b).half_scale * code);
  return elements;
}
double dot(const double* a, const double* b, ptrdiff_t count) {
  double sum = 0;
  for (ptrdiff_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// Each half on the int8 activations that it was given; what they are made of is checked by the half before it.
void expect_int8_experts(const Machine& machine, const Config& config, int num_tokens, Crowding crowding) {
  const int H = config.hidden, I = config.intermediate, E = config.num_experts, K = config.experts_per_token;
  const RandomMatrix up = random_matrix(Format::kMxfp4, 2 * I, H, 51, E),
                     down = random_matrix(Format::kMxfp4, H, I, 52, E);
  const std::vector<float> up_bias = random_floats(size_t{2} * E * I, 53),
                           down_bias = random_floats(size_t{1} * E * H, 54);
  LayerWeights layer;
  layer.gate_up = experts_of(up, up_bias);
  layer.down = experts_of(down, down_bias);
  const int strip_rows = machine.kernels.strip(Format::kMxfp4)->strip_rows;
  const PackedLayer packed{pack(layer.gate_up.first, E, strip_rows, false, machine.pool),
                           pack(layer.down.first, E, strip_rows, false, machine.pool),
                           {},
                           {}};
  const std::vector<float> normed = random_floats(size_t{1} * num_tokens * H, 55),
                           split = in_split_order(normed, H);
  const std::vector<float> weights = random_floats(size_t{1} * num_tokens * K, 56);
  const Array<int, 2> chosen({num_tokens, K});
  for (int t = 0; t < num_tokens; ++t)
    for (int k = 0; k < K; ++k)
      chosen.view()(t, k) = (crowding == Crowding::kSpread ? 5 * t + k : E - 1 - k) % E;
  const std::vector<float> before = random_floats(size_t{1} * num_tokens * H, 57);
  std::vector<float> x = before;
  const Activations a = make_activations(config, num_tokens, machine.pool.num_threads(), true);
  experts({machine,
           rows_view(split, num_tokens),
           chosen,
           rows_view(weights, num_tokens),
           layer,
           &packed,
           E,
           config.swiglu_limit,
           {},
           a.normed_q8,
           a.gated_q8,
           a.down_panels,
           View<float, 2>(x.data(), {num_tokens, H})});

  const std::vector<double> w1 = elements_of(up, E), w2 = elements_of(down, E);
  const std::vector<double> normed_q8 = elements_of(a.normed_q8, num_tokens * K),
                            h = elements_of(a.gated_q8, num_tokens * K);
  std::vector<int> place_of(num_tokens * K);  // by expert, then by row
  for (int e = 0, place = 0; e < E; ++e)
    for (int pair = 0; pair < num_tokens * K; ++pair)
      if (chosen.view().data[pair] == e) place_of[pair] = place++;
  for (int pair = 0; pair < num_tokens * K; ++pair)
    for (int c = 0; c < H; ++c)
      ASSERT_NEAR(normed_q8[ptrdiff_t{1} * place_of[pair] * H + c], normed[ptrdiff_t{1} * (pair / K) * H + c],
                  1 / 254.0 * (1 + 0x1p-14));
  std::vector<float> expected(before.size()), actual = x;
  for (int t = 0; t < num_tokens; ++t)
    for (int k = 0; k < K; ++k) {
      const ptrdiff_t e = chosen.view()(t, k), pair = ptrdiff_t{1} * t * K + k, place = place_of[pair];
      for (int i = 0; i < I; ++i) {
        const auto row = [&](ptrdiff_t r) {
          return dot(&w1[(e * 2 * I + r) * H], &normed_q8[place * H], H) + up_bias[e * 2 * I + r];
        };
        const double limit = config.swiglu_limit;
        const double gate = std::min(row(2 * i), limit), linear = std::clamp(row(2 * i + 1), -limit, limit);
        const double gated = gate / (1 + std::exp(-1.702 * gate)) * (linear + 1);
        // Half a step of its block, and what float32 makes of sums of up to 32 or so, through a slope of 9.
        const double half_step = std::abs(2.0 * a.gated_q8(place, i / kBlock).half_scale) / 2;
        ASSERT_NEAR(h[place * I + i], gated, half_step * (1 + 0x1p-14) + 9 * 32 * (H / kBlock + 6) * 0x1p-24)
            << "token " << t << " of " << num_tokens << ", expert " << e << ", " << i;
      }
      for (int r = 0; r < H; ++r)
        expected[ptrdiff_t{1} * t * H + r] += static_cast<float>(
            weights[pair] * (dot(&w2[(e * H + r) * I], &h[place * I], I) + down_bias[e * H + r]));
    }
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
  // As float32 sums of I / 32 blocks and K terms.
  expect_near(rows_view(actual, num_tokens), rows_view(expected, num_tokens), tolerance(I) + K * 0x1p-23,
              "x");
}

TEST_P(Operations, ExpertsTakeInt8Activations) {
  for (const Config& config : kConfigs)
    for (const int num_tokens : shapes::kTokens)
      for (const Crowding crowding : {Crowding::kSpread, Crowding::kAllTheSame})
        expect_int8_experts(machine_, config, num_tokens, crowding);
}

// A matrix of random blocks, as a GGUF file has it.
struct BlockMatrix {
  std::vector<std::byte> bytes;
  Matrix matrix;

  BlockMatrix(GgmlType type, int rows, int cols, uint64_t seed) {
    const std::vector<float> values = random_floats(size_t{1} * rows * cols, seed);
    const size_t num_blocks = values.size() / kBlock;
    bytes.resize(num_blocks * block_bytes(type));
    if (type == GgmlType::kQ8_0) {
      quantise_q8_0(values, bytes);
    } else {
      std::vector<uint8_t> codes(values.size() / 2), scales(num_blocks);
      encode_mxfp4(values, codes, scales);
      pack_mxfp4(codes, scales, bytes);
    }
    matrix = {nullptr, nullptr, Format::kBf16, rows, cols, nullptr, {type, bytes.data(), nullptr}};
  }

  // y [T, rows] = x [T, cols] times it.
  std::vector<double> times(const std::vector<double>& x) const {
    std::vector<double> y;
    std::vector<float> row(matrix.cols);
    const ptrdiff_t num_tokens = std::ssize(x) / matrix.cols;
    for (ptrdiff_t t = 0; t < num_tokens; ++t)
      for (int r = 0; r < matrix.rows; ++r) {
        reference::decode_row(matrix, r, row.data());
        const std::vector<double> wide(row.begin(), row.end());
        y.push_back(dot(wide.data(), &x[t * matrix.cols], matrix.cols));
      }
    return y;
  }
};
constexpr GgmlType kPackedTypes[]{GgmlType::kQ8_0, GgmlType::kMxfp4};

// On the int8 activations that were made, each within half a step of what it stands for: steps[i] of element i.
void expect_half_steps(const std::vector<double>& q8, const std::vector<float>& elements) {
  ASSERT_EQ(q8.size(), elements.size());
  for (size_t first = 0; first < q8.size(); first += kBlock) {
    float largest = 0;
    for (int c = 0; c < kBlock; ++c) largest = std::max(largest, std::abs(elements[first + c]));
    for (int c = 0; c < kBlock; ++c)
      ASSERT_NEAR(q8[first + c], elements[first + c], largest / 254 * (1 + 0x1p-12)) << first + c;
  }
}

TEST_P(Operations, ProjectTakesInt8Activations) {
  const int rows = 64, cols = 96;
  for (const GgmlType type : kPackedTypes)
    for (const int num_tokens : shapes::kTokens) {
      const BlockMatrix weight(type, rows, cols, 71);
      const int strip_rows = machine_.kernels.strip(Format::kQ8_0)->strip_rows;
      const PackedMatrix packed = pack(weight.matrix, 1, strip_rows, false, machine_.pool);
      const std::vector<float> attended = random_floats(size_t{1} * num_tokens * cols, 72),
                               split = in_split_order(attended, cols), bias = random_floats(rows, 73);
      std::vector<float> x = random_floats(size_t{1} * num_tokens * rows, 74), expected = x;
      const Array<Q8Block, 2> attended_q8({num_tokens, cols / kBlock});
      project({machine_, rows_view(split, num_tokens), weight.matrix, &packed, attended_q8.view(),
               vector_of(bias), View<float, 2>(x.data(), {num_tokens, rows})});
      const std::vector<double> q8 = elements_of(attended_q8.view(), num_tokens), y = weight.times(q8);
      expect_half_steps(q8, attended);
      for (size_t i = 0; i < y.size(); ++i) expected[i] += static_cast<float>(y[i] + bias[i % rows]);
      expect_near(rows_view(x, num_tokens), rows_view(expected, num_tokens), tolerance(cols), "x");
    }
}

TEST_P(Operations, UnembedTakesInt8Activations) {
  const int vocab = 208, hidden = 96, num_tokens = 7;
  for (const GgmlType type : kPackedTypes) {
    const BlockMatrix weight(type, vocab, hidden, 81);
    const int strip_rows = machine_.kernels.strip(Format::kQ8_0)->strip_rows;
    const PackedMatrix packed = pack(weight.matrix, 1, strip_rows, false, machine_.pool);
    const std::vector<float> elements = random_floats(size_t{num_tokens} * hidden, 82),
                             norm = random_floats(hidden, 83);
    const std::vector<int> outputs{5, 2, 0};
    const Array<float, 2> normed({num_tokens, hidden}), logits({3, vocab});
    const Array<Q8Block, 2> normed_q8({num_tokens, hidden / kBlock});
    unembed({machine_, rows_view(elements, num_tokens), outputs, vector_of(norm), weight.matrix, &packed,
             1e-5f, normed.view(), normed_q8.view(), logits.view()});
    const std::vector<double> q8 = elements_of(normed_q8.view(), 3), y = weight.times(q8);
    const Array<float, 2> all_normed({num_tokens, hidden});
    reference::rms_norm({rows_view(elements, num_tokens), vector_of(norm), 1e-5f, all_normed});
    std::vector<float> expected_normed;
    for (const int output : outputs)
      for (int c = 0; c < hidden; ++c) expected_normed.push_back(all_normed.view()(output, c));
    expect_half_steps(q8, expected_normed);
    const std::vector<float> expected(y.begin(), y.end());
    expect_near(logits.view(), rows_view(expected, 3), tolerance(hidden), "logits");
  }
}

// Queries of 3 heads, keys and values of one: which strips are whose, and what is done with them.
TEST_P(Operations, QkvTakesInt8Activations) {
  Config config = kConfigs[0];
  config.hidden = 96, config.num_heads = 3, config.num_kv_heads = 1, config.head_dim = 32;
  const int num_tokens = 5, H = config.hidden, D = config.head_dim;
  for (const GgmlType type : kPackedTypes) {
    const BlockMatrix q(type, 3 * D, H, 91), k(type, D, H, 92), v(type, D, H, 93);
    const std::vector<float> q_bias = random_floats(3 * D, 94), k_bias = random_floats(D, 95),
                             v_bias = random_floats(D, 96), norm = random_floats(H, 97);
    LayerWeights layer;
    layer.attention_norm = vector_of(norm);
    layer.q = q.matrix, layer.k = k.matrix, layer.v = v.matrix;
    layer.q_bias = vector_of(q_bias), layer.k_bias = vector_of(k_bias), layer.v_bias = vector_of(v_bias);
    const Matrix parts[]{layer.q, layer.k, layer.v};
    const PackedMatrix packed =
        pack_below(parts, machine_.kernels.strip(Format::kQ8_0)->strip_rows, false, machine_.pool);
    const OneSequence sequence(config, num_tokens, 45);
    const auto rows = rows_of(sequence.batch);
    const std::vector<float> elements = random_floats(size_t{1} * num_tokens * H, 98);
    const Activations a = activations(config, num_tokens, true);
    const KvCache kv_cache(config, Format::kBf16, sequence.num_pages(), 0);
    rotations({rope_frequencies(config.rope, D), rows, a.cosines, a.sines});
    qkv({machine_, rows_view(elements, num_tokens), rows, layer, &packed, config.rms_eps, a.cosines, a.sines,
         a.normed, a.normed_q8, a.q, kv_cache.layer(0)});

    const std::vector<double> x = elements_of(a.normed_q8, num_tokens);
    const auto rotated = [&](const BlockMatrix& matrix, const std::vector<float>& bias, int t, int head,
                             int d) {
      const std::vector<double> own(&x[size_t{1} * t * H], &x[size_t{1} * t * H] + H), y = matrix.times(own);
      const int half = D / 2, i = d % half;
      const double first = y[head * D + i] + bias[head * D + i],
                   second = y[head * D + half + i] + bias[head * D + half + i];
      const double cosine = a.cosines(t, i), sine = a.sines(t, i);
      return d < half ? first * cosine - second * sine : second * cosine + first * sine;
    };
    // Sums of H / 32 blocks of size 10 or so; keys and values are rounded to 8 bits.
    const double rounding = 100 * 0x1p-24 * (H / kBlock + 6);
    for (int t = 0; t < num_tokens; ++t)
      for (int d = 0; d < D; ++d) {
        for (int head = 0; head < 3; ++head)
          ASSERT_NEAR(a.q(t, head, split_index(d)), rotated(q, q_bias, t, head, d), rounding)
              << t << ", " << d;
        const int position = rows[t].position;
        const LayerKv& kv = kv_cache.layer(0);
        const double key = rotated(k, k_bias, t, 0, d);
        ASSERT_NEAR(element_of(kv, kv.keys({sequence.pages}, position, 0), position, d), key,
                    std::abs(key) * 0x1p-8 + rounding);
        const std::vector<double> own(&x[size_t{1} * t * H], &x[size_t{1} * t * H] + H);
        const double value = v.times(own)[d] + v_bias[d];
        ASSERT_NEAR(element_of(kv, kv.values({sequence.pages}, position, 0), position, d), value,
                    std::abs(value) * 0x1p-8 + rounding);
      }
  }
}

TEST_P(Operations, ExpertsMayBeBf16) {
  const Activations a = activations(kConfigs[0], 33);
  for (const int num_tokens : {1, 33})
    expect_experts(machine_, kConfigs[0], a, Format::kBf16, num_tokens, Crowding::kSpread);
}

TEST_P(Operations, UnembedGivesTheLogitsOfTheRowsAskedFor) {
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
