// Tests a model that nodes share over the loopback device: the backend contract, and whether logits equal
// those of the whole model.
#include <gtest/gtest.h>

#include <cmath>

#include "model/checkpoint/synthetic.h"
#include "model/quantize.h"
#include "reference/reference_backend.h"
#include "tests/backend/contract.h"
#include "tests/nodes/group.h"

namespace nibble {
namespace {

using nodes::SharedBackend;

BackendOptions options_of_node() {
  return {.num_pages = Fulfilment::kNumPages, .max_batch_tokens = 1024, .num_threads = 1};
}

Fulfilment shared_by(const char* name, std::vector<int> parts, cpu::ExpertActivations experts,
                     ExpertSplit split = ExpertSplit::kUnits) {
  return {name, [=](std::shared_ptr<const Weights> weights) -> std::unique_ptr<Backend> {
            return std::make_unique<SharedBackend>(std::move(weights), parts, options_of_node(),
                                                   cpu::CpuOptions{.expert_activations = experts}, split);
          }};
}

const Fulfilment kTwo = shared_by("Two", {1, 1}, cpu::ExpertActivations::kDefault),
                 kThree = shared_by("Three", {1, 1, 1}, cpu::ExpertActivations::kFloat),
                 kTwoOfExperts =
                     shared_by("TwoOfExperts", {1, 1}, cpu::ExpertActivations::kInt8, ExpertSplit::kWhole),
                 kThreeOfExperts = shared_by("ThreeOfExperts", {1, 1, 1}, cpu::ExpertActivations::kDefault,
                                             ExpertSplit::kWhole);

std::string name_of_case(const testing::TestParamInfo<Fulfilment>& info) { return info.param.name; }

// Random model b has 3 KV heads and 3.5 tiles of intermediate columns.
INSTANTIATE_TEST_SUITE_P(OfNodes, BackendBits,
                         testing::Combine(testing::Values(kThree, kThreeOfExperts), testing::Values("b")),
                         [](const auto& info) { return std::get<0>(info.param).name; });
INSTANTIATE_TEST_SUITE_P(OfNodes, BackendOutputs, testing::Values(kTwo, kTwoOfExperts), name_of_case);

// Returns a config with 8 KV heads, 9.5 tiles of intermediate columns and 9.4 strips of the vocabulary.
Config config_for_nodes() {
  Config config = *named_config("gpt-oss-20b");
  config.num_layers = 2;
  config.layer_kinds.resize(2);
  config.hidden = 64;
  config.intermediate = 608;
  config.num_heads = 16;
  config.num_kv_heads = 8;
  config.head_dim = 32;
  config.num_experts = 4;
  config.experts_per_token = 2;
  config.vocab = 150;
  config.window = 16;
  return config;
}

std::vector<float> logits_of(std::unique_ptr<Backend> backend, const std::vector<TokenId>& ids) {
  Feeder feeder(std::move(backend), Fulfilment::kNumPages);
  feeder.feed_in_chunks(0, std::span(ids).first(40), 40);
  feeder.feed_in_chunks(0, std::span(ids).subspan(40), 1);
  return feeder.logits(0);
}

double relative_error(const std::vector<float>& got, const std::vector<float>& expected) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(double{got[i]} - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  EXPECT_GT(norm, 1);
  return std::sqrt(error / norm);
}

// With float activations, ranks differ from the whole model by float32 sums, and by keys and values whose
// rounding to BF16 depends on these sums: one in a few thousand differs by 2^-8 (derived in
// tests/backend/cpu/golden_test.cpp).
TEST(SharedBackend, HasTheLogitsOfTheWholeModelAndTheSameBitsInEachRun) {
  const auto weights = std::make_shared<const Weights>(make_synthetic(config_for_nodes(), "eight heads"));
  const std::vector<TokenId> ids = random_ids(45, weights->config.vocab, 1);
  const cpu::CpuOptions floats{.expert_activations = cpu::ExpertActivations::kFloat};
  const std::vector<float> whole = logits_of(cpu::make(weights, options_of_node(), floats), ids);
  const std::vector<float> exact = logits_of(reference::make(weights, options_of_node()), ids);
  const auto expect_whole = [&](const std::vector<int>& parts, ExpertSplit split) {
    SCOPED_TRACE(fmt::format("{} nodes{}", parts.size(), split == ExpertSplit::kWhole ? ", experts" : ""));
    const auto shared = [&] {
      return logits_of(std::make_unique<SharedBackend>(weights, parts, options_of_node(), floats, split),
                       ids);
    };
    const std::vector<float> logits = shared();
    EXPECT_EQ(shared(), logits);
    EXPECT_LT(relative_error(logits, whole), 1e-3);
    EXPECT_LT(relative_error(logits, exact), 1e-2);  // the keys and values of `exact` are float32
  };
  for (const std::vector<int>& parts :
       std::vector<std::vector<int>>{{1, 1}, {1, 1, 1, 1}, {3, 1}, {1, 5}, {1, 1, 1, 1, 1, 1, 1, 1}})
    expect_whole(parts, ExpertSplit::kUnits);
  for (const std::vector<int>& parts : std::vector<std::vector<int>>{{1, 1}, {1, 1, 1, 1}, {3, 1}, {5, 2}})
    expect_whole(parts, ExpertSplit::kWhole);
}

// There are more experts per token than nodes, and different numbers of experts per node.
TEST(SharedBackend, OfWholeExpertsHasTheWholeModelsLogitsForEitherKindOfActivations) {
  Config config = config_for_nodes();
  config.num_experts = 11;
  config.experts_per_token = 4;
  const auto weights = std::make_shared<const Weights>(make_synthetic(config, "eleven experts"));
  const std::vector<TokenId> ids = random_ids(45, config.vocab, 3);
  for (const auto activations : {cpu::ExpertActivations::kFloat, cpu::ExpertActivations::kInt8}) {
    const cpu::CpuOptions own{.expert_activations = activations};
    const std::vector<float> whole = logits_of(cpu::make(weights, options_of_node(), own), ids);
    for (const std::vector<int>& parts :
         std::vector<std::vector<int>>{{1, 1}, {7, 1}, {1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1}}) {
      const std::vector<float> shared = logits_of(
          std::make_unique<SharedBackend>(weights, parts, options_of_node(), own, ExpertSplit::kWhole), ids);
      // A float32 sum can decide how an activation is rounded to int8. Then the activation may differ by one
      // code: 1/127 of the largest activation of its block.
      EXPECT_LT(relative_error(shared, whole), activations == cpu::ExpertActivations::kFloat ? 1e-3 : 1e-2)
          << parts.size();
    }
  }
}

// Covers each format of the dense matrices. Each rank quantises its own part of a matrix. A rank has some
// columns of `o`, so the FP8 scale that it computes for a row differs from that of the whole row.
TEST(SharedBackend, HasTheWholeModelsLogitsInEachFormat) {
  const auto weights = std::make_shared<const Weights>(make_synthetic(config_for_nodes(), "eight heads"));
  const std::vector<TokenId> ids = random_ids(45, weights->config.vocab, 2);
  const cpu::CpuOptions floats{.expert_activations = cpu::ExpertActivations::kFloat};
  for (const Format format : {Format::kE4m3, Format::kMxfp4}) {
    BackendOptions options = options_of_node();
    options.dense = {format, Format::kMxfp4, format};
    options.kv_format = Format::kE4m3;
    const std::vector<float> whole = logits_of(cpu::make(weights, options, floats), ids);
    const std::vector<float> shared =
        logits_of(std::make_unique<SharedBackend>(weights, std::vector{1, 1, 1, 1}, options, floats), ids);
    EXPECT_LT(relative_error(shared, whole), 1.3e-2) << name(format);
  }
}

}  // namespace
}  // namespace nibble
