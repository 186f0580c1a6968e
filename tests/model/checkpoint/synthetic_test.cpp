#include "model/checkpoint/synthetic.h"
#include "model/checkpoint/write_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "core/errors/error.h"
#include "core/numbers/random.h"
#include "tests/error_of.h"
#include "tests/model/small_model.h"

namespace nibble {
namespace {

double rms(const std::vector<float>& values) {
  double sum{0};
  for (const float x : values) sum += double{x} * x;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

std::vector<float> values(const Vector& vector) {
  std::vector<float> all;
  for (int i = 0; i < vector.count; ++i) all.push_back(vector[i]);
  return all;
}

std::vector<float> values(const Matrix& matrix) {
  constexpr float kE2m1[]{0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.f, -0.5, -1, -1.5, -2, -3, -4, -6};
  std::vector<float> all;
  for (ptrdiff_t i = 0; i < ptrdiff_t{matrix.rows} * matrix.cols; ++i) {
    if (matrix.format() == Format::kBf16) {
      all.push_back(to_float(static_cast<const Bf16*>(matrix.elements().data)[i]));
    } else {
      const uint8_t pair = static_cast<const uint8_t*>(matrix.elements().data)[i / 2];
      all.push_back(
          std::ldexp(kE2m1[i % 2 == 0 ? pair & 15 : pair >> 4], matrix.elements().scales[i / 32] - 127));
    }
  }
  return all;
}

TEST(Synthetic, InMemoryAndOnDiskAreTheSameWeights) {
  const TestFolder folder;
  write_checkpoint(synthetic_source(small_config(), "synthetic", /*seed=*/5), folder.path() / "model");
  const Weights written = open_weights(folder.path() / "model");
  const Weights made = make_synthetic(small_config(), "synthetic:small", /*seed=*/5);
  EXPECT_EQ(written.config, made.config);
  EXPECT_EQ(bytes_of(written), bytes_of(made));
  EXPECT_EQ(made.source, "synthetic:small");
}

void expect_words(const RandomWords& words, const void* made, size_t num_bytes) {
  const auto* bytes = static_cast<const std::byte*>(made);
  for (size_t at = 0; at < num_bytes; at += 8) {
    const uint64_t word = (random_bits(words.seed, at / 8) & words.mask) + words.base;
    ASSERT_EQ(std::memcmp(&word, bytes + at, std::min<size_t>(8, num_bytes - at)), 0) << at;
  }
}

// Checks that the recipe of `described` gives `count` consecutive matrices, the first of which is `made`.
void expect_recipe(const Matrix& described, const Matrix& made, int count = 1) {
  EXPECT_EQ(described.rows, made.rows);
  EXPECT_EQ(described.cols, made.cols);
  ASSERT_TRUE(std::holds_alternative<Recipe>(described.stored));
  const auto& recipe = std::get<Recipe>(described.stored);
  const Elements& elements = made.elements();
  ASSERT_EQ(recipe.format, elements.format);
  const size_t num_elements = size_t{1} * count * made.rows * made.cols;
  const bool is_bf16 = recipe.format == Format::kBf16;
  expect_words(recipe.data, elements.data, is_bf16 ? 2 * num_elements : num_elements / 2);
  if (!is_bf16) expect_words(recipe.scales, elements.scales, num_elements / 32);
}

TEST(Synthetic, ARecipeGivesTheSameWords) {
  const Weights made = make_synthetic(small_config(), "x", /*seed=*/5);
  const Weights described = describe_synthetic(small_config(), "x", /*seed=*/5);
  const int num_experts = small_config().num_experts;
  expect_recipe(described.embedding, made.embedding);
  expect_recipe(described.unembedding, made.unembedding);
  EXPECT_EQ(values(described.final_norm), values(made.final_norm));
  ASSERT_EQ(described.layers.size(), made.layers.size());
  for (size_t n = 0; n < made.layers.size(); ++n) {
    const LayerWeights &recipes = described.layers[n], &elements = made.layers[n];
    for (Matrix LayerWeights::*matrix :
         {&LayerWeights::q, &LayerWeights::k, &LayerWeights::v, &LayerWeights::o, &LayerWeights::router})
      expect_recipe(recipes.*matrix, elements.*matrix);
    for (Vector LayerWeights::*vector :
         {&LayerWeights::attention_norm, &LayerWeights::q_bias, &LayerWeights::k_bias, &LayerWeights::v_bias,
          &LayerWeights::sinks, &LayerWeights::o_bias, &LayerWeights::mlp_norm, &LayerWeights::router_bias})
      EXPECT_EQ(values(recipes.*vector), values(elements.*vector));
    for (ExpertMatrices LayerWeights::*experts : {&LayerWeights::gate_up, &LayerWeights::down}) {
      expect_recipe((recipes.*experts).first, (elements.*experts).first, num_experts);
      for (int e = 0; e < num_experts; ++e)
        EXPECT_EQ(values((recipes.*experts).bias(e)), values((elements.*experts).bias(e)));
    }
  }
}

TEST(Synthetic, AreTheSameEveryTimeAndOtherWithAnotherSeed) {
  const auto first = bytes_of(make_synthetic(small_config(), "x"));
  EXPECT_EQ(first, bytes_of(make_synthetic(small_config(), "x")));
  const auto other = bytes_of(make_synthetic(small_config(), "x", 1));
  for (const auto& [name, bytes] : first) EXPECT_NE(bytes, other.at(name)) << name;
}

TEST(Synthetic, NoTwoTensorsAreEqual) {
  const Weights weights = make_synthetic(small_config(), "x");
  EXPECT_NE(values(weights.layers[0].q), values(weights.layers[1].q));
  EXPECT_NE(values(weights.layers[0].k), values(weights.layers[0].v));
  EXPECT_NE(values(weights.layers[0].gate_up.matrix(0)), values(weights.layers[0].gate_up.matrix(1)));
}

// Scales are powers of two, so the RMS is within a factor of sqrt(2) of the target.
TEST(Synthetic, LinearLayersKeepTheRmsOfWhatGoesIn) {
  const Weights weights = make_synthetic(small_config(), "x");
  const LayerWeights& layer = weights.layers[1];
  for (const Matrix& matrix :
       {layer.q, layer.o, layer.router, weights.unembedding, layer.gate_up.matrix(3), layer.down.matrix(4)}) {
    const double gain = rms(values(matrix)) * std::sqrt(matrix.cols);
    EXPECT_GT(gain, 0.6) << matrix.rows << " x " << matrix.cols;
    EXPECT_LT(gain, 1.6) << matrix.rows << " x " << matrix.cols;
  }
  EXPECT_NEAR(rms(values(weights.embedding)), 1, 0.5);
}

TEST(Synthetic, NormsAreNearOneBiasesAndSinksSmallButNotZero) {
  const Weights weights = make_synthetic(small_config(), "x");
  const LayerWeights& layer = weights.layers[0];
  for (const float g : values(layer.attention_norm)) EXPECT_NEAR(g, 1, 0.06);
  for (const Vector& bias : {layer.q_bias, layer.o_bias, layer.router_bias, layer.down.bias(2)})
    for (const float b : values(bias)) {
      EXPECT_NE(b, 0);
      EXPECT_LT(std::abs(b), 0.2);
    }
  for (const float sink : values(layer.sinks)) {
    EXPECT_NE(sink, 0);
    EXPECT_LT(std::abs(sink), 2);
  }
}

TEST(Synthetic, EveryCodeIsAboutEquallyFrequent) {
  Config config = small_config();
  config.intermediate = 1024;
  const Weights weights = make_synthetic(config, "x");
  const Matrix codes = weights.layers[0].gate_up.matrix(0);
  const int num_bytes = codes.rows * codes.cols / 2;
  std::vector<int> counts(16);
  for (int i = 0; i < num_bytes; ++i) {
    const uint8_t pair = static_cast<const uint8_t*>(codes.elements().data)[i];
    ++counts[pair & 15];
    ++counts[pair >> 4];
  }
  // There are 131,072 codes, 8,192 of each value, with a standard deviation of 88. Six deviations do not
  // occur by chance.
  for (const int count : counts) EXPECT_NEAR(count, num_bytes * 2 / 16, 6 * 88);
}

// Normalised random inputs must choose every expert. With uniform routing, 4,000 inputs that choose 4 of 32
// experts choose each 500 times.
TEST(Synthetic, RoutingPrefersNoExpert) {
  Config config = small_config();
  config.hidden = 512;
  config.num_experts = 32;
  const Weights weights = make_synthetic(config, "x");
  const std::vector<float> router = values(weights.layers[0].router);
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<int> chosen(32);
  for (int n = 0; n < 4000; ++n) {
    std::vector<float> x(512);
    for (float& v : x) v = normal(generator);
    std::vector<std::pair<float, size_t>> logits;
    for (size_t e = 0; e < 32; ++e) {
      float logit = weights.layers[0].router_bias[static_cast<ptrdiff_t>(e)];
      for (size_t i = 0; i < x.size(); ++i) logit += router[e * 512 + i] * x[i];
      logits.emplace_back(logit, e);
    }
    std::partial_sort(logits.begin(), logits.begin() + 4, logits.end(), std::greater<>());
    for (int k = 0; k < 4; ++k) ++chosen[logits[static_cast<size_t>(k)].second];
  }
  EXPECT_GT(*std::min_element(chosen.begin(), chosen.end()), 250);
  EXPECT_LT(*std::max_element(chosen.begin(), chosen.end()), 1000);
}

TEST(Synthetic, ReportsEveryByteOnce) {
  const size_t total = total_bytes(tensor_specs(small_config()));
  size_t last{0};
  const auto report = [&](size_t done, size_t whole) {
    EXPECT_GT(done, last);
    EXPECT_EQ(whole, total);
    last = done;
  };
  make_synthetic(small_config(), "x", 0, report);
  EXPECT_EQ(last, total);
  last = 0;
  const TestFolder folder;
  write_checkpoint(synthetic_source(small_config(), "synthetic"), folder.path() / "model", {}, report);
  EXPECT_EQ(last, total);
}

TEST(Synthetic, NothingIsLeftOfAFolderWhoseWritingBreaksOff) {
  const TestFolder folder;
  std::filesystem::create_directory(folder.path() / "old");
  const auto break_off = [&](size_t done, size_t total) {
    // The last step is reached when everything except the small files is written.
    if (done == total) throw InputError("broken off");
  };
  for (const char* name : {"new", "old"})
    EXPECT_EQ(error_of([&] {
                write_checkpoint(synthetic_source(small_config(), "synthetic"), folder.path() / name, {},
                                 break_off);
              }),
              "broken off");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "new"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() / "old"));
}

TEST(Synthetic, AFolderThatHoldsSomethingIsLeftAlone) {
  const TestFolder folder;
  write_text(folder.path() / "precious.txt", "x");
  EXPECT_THAT(
      error_of([&] { write_checkpoint(synthetic_source(small_config(), "synthetic"), folder.path()); }),
      testing::HasSubstr("not an empty folder"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "config.json"));
  EXPECT_THAT(error_of([&] {
                write_checkpoint(synthetic_source(small_config(), "synthetic"),
                                 folder.path() / "precious.txt");
              }),
              testing::HasSubstr("precious.txt"));
}

}  // namespace
}  // namespace nibble
