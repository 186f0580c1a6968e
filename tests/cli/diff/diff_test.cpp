#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>

#include "cli/diff/compare.h"
#include "cli/diff/states.h"
#include "cli/measure/speed_tests.h"
#include "setup/plan/capacity.h"
#include "setup/start/load.h"
#include "setup/start/resolve.h"
#include "tests/error_of.h"
#include "tests/folders.h"

namespace nibble::cli {
namespace {

using testing::HasSubstr;

// comparison

States two_tokens(std::vector<State> states) { return {{TokenId{1}, TokenId{2}}, std::move(states)}; }

TEST(Diff, TheErrorOfAStateIsTheRootMeanSquareOverItsTokens) {
  const States a = two_tokens({{"embed", {3, 4, 1, 0}}}), b = two_tokens({{"embed", {3, 4, 1, 0.5f}}});
  const StateDifference difference = compare_states(a, b).at(0);
  const double of_second = 0.5 / std::sqrt(1.25);
  EXPECT_DOUBLE_EQ(difference.worst_error, of_second);
  EXPECT_EQ(difference.worst_row, 1);
  EXPECT_DOUBLE_EQ(difference.error, of_second / std::sqrt(2));
}

TEST(Diff, AValueThatIsNoNumberIsTheLargestErrorAndEqualZerosAreNone) {
  constexpr float kNan{std::numeric_limits<float>::quiet_NaN()};
  const States truth = two_tokens({{"embed", {0, 0, 1, 0}}});
  EXPECT_EQ(compare_states(two_tokens({{"embed", {0, 0, kNan, 0}}}), truth).at(0).worst_error, 1);
  EXPECT_EQ(compare_states(two_tokens({{"embed", {0, 1e-9f, 1, 0}}}), truth).at(0).worst_error, 1);
  EXPECT_EQ(compare_states(truth, truth).at(0).worst_error, 0);
}

TEST(Diff, OtherTokensOrShapesAreRefused) {
  const States a = two_tokens({{"embed", {1, 2}}});
  EXPECT_THAT(error_of([&] {
                compare_states(a, {{TokenId{1}, TokenId{3}}, a.states});
              }),
              HasSubstr("other tokens"));
  EXPECT_THAT(error_of([&] {
                compare_states(a, two_tokens({{"embed", {1, 2, 3, 4}}}));
              }),
              HasSubstr("embed has 2 and 4 values"));
  EXPECT_THAT(error_of([&] {
                compare_states(a, two_tokens({{"layer 0 output", {1, 2}}}));
              }),
              HasSubstr("--by-layer"));
}

TEST(Diff, TheReportHasARowForEachLayerAndNamesTheFirstDifference) {
  const std::string report = difference_report({{"embed", 0, 0, 0},
                                                {"layer 0 qkv", 1e-3, 0, 1e-3},
                                                {"layer 0 attend", 2e-3, 0, 2e-3},
                                                {"layer 1 qkv", 0.3, 4, 0.7},
                                                {"layer 1 attend", 0.5, 4, 0.8}},
                                               0.05);
  EXPECT_EQ(
      report,
      "| layer |     embed |       qkv |    attend |\n"
      "| ----: | --------: | --------: | --------: |\n"
      "|       |   0.0e+00 |           |           |\n"
      "|     0 |           |   1.0e-03 |   2.0e-03 |\n"
      "|     1 |           | 3.0e-01 ! | 5.0e-01 ! |\n"
      "\n- first difference above 0.05: layer 1 qkv, 3.00e-01; worst at token 4, 7.00e-01; before it layer 0 "
      "attend, 2.00e-03\n");
}

// on the tiny model

class DiffOfTiny : public testing::Test {
 protected:
  static ResolvedSettings setup_of(const char* backend) {
    Settings settings;
    settings.backend = backend;
    settings.threads = 1;
    if (settings.backend == "cpu") settings.experts_activations = "float";
    return resolve(settings);
  }
  static States traced(const Model& model, const char* backend) {
    const ResolvedSettings setup = setup_of(backend);
    const BackendOptions room = backend_options(model.config, setup, {kNumTokens, 1});
    return states_by_operation(*load(model, setup, room), room, tokens_at(0, kNumTokens, model.config.vocab));
  }
  // Returns the name of the first state that differs between the perturbed model on the CPU backend and the
  // unchanged model on the reference.
  std::string found(const Model& perturbed) const {
    const auto differences = compare_states(traced(perturbed, "cpu"), traced(model_, "reference"));
    const auto first = first_above(differences, kTolerance);
    return first ? differences[*first].name : "none";
  }
  // Returns the model with `change` applied to a copy of a layer's weight descriptions.
  Model with(size_t layer, const std::function<void(LayerWeights&)>& change) const {
    Model changed = model_;
    Weights weights = *model_.weights;
    change(weights.layers[layer]);
    changed.weights = std::make_shared<const Weights>(std::move(weights));
    return changed;
  }

  static constexpr int kNumTokens{24};
  static constexpr double kTolerance{0.02};  // four times the largest error of a cache in BF16
  Model model_ = open_model(test::source_path("models/tiny-gpt-oss"), {});
};

TEST_F(DiffOfTiny, CorrectBackendsHaveNoDifference) { EXPECT_EQ(found(model_), "none"); }

TEST_F(DiffOfTiny, AnExchangedWeightIsFoundInItsLayerAndOperation) {
  for (const size_t layer : {1u, 4u}) {
    const LayerWeights& other = model_.weights->layers[layer == 1 ? 2 : 3];
    const auto place = [&](const char* operation) { return fmt::format("layer {} {}", layer, operation); };
    EXPECT_EQ(found(with(layer, [&](LayerWeights& w) { w.q = other.q; })), place("qkv"));
    EXPECT_EQ(found(with(layer, [&](LayerWeights& w) { w.v = other.v; })), place("qkv"));
    EXPECT_EQ(found(with(layer, [&](LayerWeights& w) { w.sinks = other.sinks; })), place("attend"));
    EXPECT_EQ(found(with(layer, [&](LayerWeights& w) { w.o = other.o; })), place("project"));
    EXPECT_EQ(found(with(layer, [&](LayerWeights& w) { w.router = other.router; })), place("route"));
    EXPECT_EQ(found(with(layer, [&](LayerWeights& w) { w.gate_up = other.gate_up; })), place("experts"));
    EXPECT_EQ(found(with(layer, [&](LayerWeights& w) { w.down = other.down; })), place("experts"));
  }
}

TEST_F(DiffOfTiny, TheEmbeddingAndTheUnembeddingAreFoundToo) {
  Weights weights = *model_.weights;
  std::swap(weights.embedding, weights.unembedding);
  Model changed = model_;
  changed.weights = std::make_shared<const Weights>(weights);
  EXPECT_EQ(found(changed), "embed");
  weights.embedding = model_.weights->embedding;
  changed.weights = std::make_shared<const Weights>(weights);
  EXPECT_EQ(found(changed), "unembed");
}

TEST_F(DiffOfTiny, ByLayerTheSameWeightIsFoundInItsLayer) {
  const std::vector<TokenId> tokens = tokens_at(0, kNumTokens, model_.config.vocab);
  const States truth = states_by_layer(model_, setup_of("reference"), tokens);
  ASSERT_EQ(std::ssize(truth.states), model_.config.num_layers);
  const auto found_by_layer = [&](const Model& model) {
    const auto differences = compare_states(states_by_layer(model, setup_of("cpu"), tokens), truth);
    const auto first = first_above(differences, kTolerance);
    return first ? differences[*first].name : "none";
  };
  EXPECT_EQ(found_by_layer(model_), "none");
  EXPECT_EQ(found_by_layer(with(4, [&](LayerWeights& w) { w.o = model_.weights->layers[3].o; })),
            "layer 4 output");
}

TEST_F(DiffOfTiny, ASavedFileHasTheSameTokensAndStates) {
  const std::filesystem::path path = testing::TempDir() + fmt::format("states_{}.safetensors", getpid());
  const States states = traced(model_, "cpu");
  write_states(path, states);
  const States read = read_states(path);
  std::filesystem::remove(path);
  EXPECT_EQ(read.tokens, states.tokens);
  for (const StateDifference& difference : compare_states(states, read)) EXPECT_EQ(difference.error, 0);
  EXPECT_EQ(read.states.size(), states.states.size());
  EXPECT_THAT(error_of([&] {
                read_states(test::source_path("models/tiny-gpt-oss/model-00001-of-00001.safetensors"));
              }),
              HasSubstr("not a file of 'nibble diff --save'"));
}

}  // namespace
}  // namespace nibble::cli
