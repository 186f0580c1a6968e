// Compares operations on strip weights and int8 activations with sums in double, for the kernels of every
// instruction set that this machine supports.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/cpu/attention/rope.h"
#include "backend/cpu/dense/project.h"
#include "backend/cpu/dense/qkv.h"
#include "backend/cpu/dense/unembed.h"
#include "backend/cpu/experts/experts.h"
#include "backend/cpu/packed_model.h"
#include "formats/ggml_blocks.h"
#include "formats/mxfp4.h"
#include "reference/array.h"
#include "reference/rms_norm.h"
#include "reference/weight_row.h"
#include "tests/backend/cpu/operations.h"
#include "tests/ops/shapes.h"

namespace nibble::cpu {
namespace {

using reference::Array;

class Int8Operations : public Operations {};
INSTANTIATE_TEST_SUITE_P(, Int8Operations, testing::ValuesIn(isas_of_their_own()), name_of);

// Decodes the experts' matrices, or rows of int8 activations, to double.
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

// Checks each half of the MLP on the int8 inputs that it actually got, so that errors of the first half do
// not count twice.
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
  const PackedExperts packed{pack(layer.gate_up.first, E, strip_rows, false, machine.pool),
                             pack(layer.down.first, E, strip_rows, false, machine.pool)};
  const std::vector<float> normed = random_floats(size_t{1} * num_tokens * H, 55),
                           split = in_split_order(normed, H);
  const std::vector<float> weights = random_floats(size_t{1} * num_tokens * K, 56);
  const Array<int, 2> chosen({num_tokens, K});
  for (int t = 0; t < num_tokens; ++t)
    for (int k = 0; k < K; ++k)
      chosen.view()(t, k) = (crowding == Crowding::kSpread ? 5 * t + k : E - 1 - k) % E;
  const std::vector<float> before = random_floats(size_t{1} * num_tokens * H, 57);
  std::vector<float> x = before;
  const Activations a = make_activations(config, num_tokens, machine.pool.num_threads(), {.int8 = true});
  experts({machine,
           rows_view(split, num_tokens),
           chosen,
           rows_view(weights, num_tokens),
           layer,
           &packed,
           {0, E},
           config.swiglu_limit,
           {},
           a.normed_q8,
           a.gated_q8,
           a.down_panels,
           View<float, 2>(x.data(), {num_tokens, H})});

  const std::vector<double> w1 = elements_of(up, E), w2 = elements_of(down, E);
  const std::vector<double> normed_q8 = elements_of(a.normed_q8, num_tokens * K),
                            h = elements_of(a.gated_q8, num_tokens * K);
  // Place of each pair (row, expert) in the order of experts, then of rows.
  std::vector<int> place_of(num_tokens * K);
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
        // The tolerance is half a step of the element's block, plus the float32 error of sums, which are at
        // most about 32, multiplied by the largest slope of swiglu, 9.
        const double half_step = std::abs(2.0 * a.gated_q8(place, i / kBlock).half_scale) / 2;
        ASSERT_NEAR(h[place * I + i], gated, half_step * (1 + 0x1p-14) + 9 * 32 * (H / kBlock + 6) * 0x1p-24)
            << "token " << t << " of " << num_tokens << ", expert " << e << ", " << i;
      }
      for (int r = 0; r < H; ++r)
        expected[ptrdiff_t{1} * t * H + r] += static_cast<float>(
            weights[pair] * (dot(&w2[(e * H + r) * I], &h[place * I], I) + down_bias[e * H + r]));
    }
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
  // The tolerance is the error of float32 sums of I / 32 blocks and K terms.
  expect_near(rows_view(actual, num_tokens), rows_view(expected, num_tokens), tolerance(I) + K * 0x1p-23,
              "x");
}

TEST_P(Int8Operations, ExpertsTakeInt8Activations) {
  for (const Config& config : kConfigs)
    for (const int num_tokens : shapes::kTokens)
      for (const Crowding crowding : {Crowding::kSpread, Crowding::kAllTheSame})
        expect_int8_experts(machine_, config, num_tokens, crowding);
}

// A matrix of random blocks, stored as in a GGUF file.
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
    matrix = {rows, cols, Blocks{type, bytes.data(), nullptr}};
  }

  // Computes y [T, rows] = x [T, cols] times the transpose of this matrix.
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

// Checks that int8 activations `q8` are within half a step of `elements`, which they encode. The step is
// 1/127 of the largest magnitude in a block.
void expect_half_steps(const std::vector<double>& q8, const std::vector<float>& elements) {
  ASSERT_EQ(q8.size(), elements.size());
  for (size_t first = 0; first < q8.size(); first += kBlock) {
    float largest = 0;
    for (int c = 0; c < kBlock; ++c) largest = std::max(largest, std::abs(elements[first + c]));
    for (int c = 0; c < kBlock; ++c)
      ASSERT_NEAR(q8[first + c], elements[first + c], largest / 254 * (1 + 0x1p-12)) << first + c;
  }
}

TEST_P(Int8Operations, ProjectTakesInt8Activations) {
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

TEST_P(Int8Operations, UnembedTakesInt8Activations) {
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

// Checks which strips belong to which head, and how their outputs are processed, for 3 query heads and one KV
// head.
TEST_P(Int8Operations, QkvTakesInt8Activations) {
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
    const KvCache kv_cache(config, Format::kBf16, sequence.num_pages());
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
    // Allowed error of sums of H / 32 blocks of magnitude about 10. Keys and values are also rounded to 8
    // bits.
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

}  // namespace
}  // namespace nibble::cpu
