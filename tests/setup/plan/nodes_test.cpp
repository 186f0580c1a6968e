#include "setup/plan/nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "setup/model/model.h"
#include "setup/plan/memory.h"
#include "setup/start/resolve.h"
#include "tests/error_of.h"
#include "tests/folders.h"

namespace nibble {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class NodesTest : public testing::Test {
 protected:
  const fs::path secret_ = fs::path(testing::TempDir()) / fmt::format("nibble_secret_{}", ::getpid());

  NodesTest() { std::ofstream(secret_) << "a secret of some bytes\r\nsecond line\n"; }
  ~NodesTest() override { fs::remove(secret_); }

  Settings of_node(int rank) const {
    Settings settings;
    settings.backend = "cpu";
    settings.nodes = 2;
    settings.node_rank = rank;
    settings.head = "127.0.0.1:7000";
    settings.secret_file = secret_.string();
    return settings;
  }
};

TEST_F(NodesTest, TheSecretIsTheFirstLineOfItsFile) {
  const nodes::Secret from_file = read_secret(secret_.string()), same("a secret of some bytes", "the test");
  EXPECT_TRUE(same.is_proof(from_file.prove("purpose", {}), "purpose", {}));
}

TEST_F(NodesTest, HaveHalfOfTheWeightsAndOfTheCacheEach) {
  const Model model = open_model("synthetic:gpt-oss-20b", {});
  for (const int rank : {0, 1}) {
    const ResolvedSettings setup = resolve(of_node(rank));
    const Config here = config_here(model.config, setup);
    EXPECT_EQ(here.num_kv_heads, 4);
    EXPECT_EQ(here.intermediate, rank == 0 ? 1472 : 1408);
    EXPECT_EQ(here.vocab, model.config.vocab);
  }
  EXPECT_EQ(config_here(model.config, resolve({})), model.config);
  Settings of_experts = of_node(1);
  of_experts.expert_parallel = true;
  const Config here = config_here(model.config, resolve(of_experts));
  EXPECT_EQ(here.intermediate, model.config.intermediate);
  EXPECT_EQ(here.experts(), (IndexRange{16, 16}));
  EXPECT_LT(weight_bytes(here), weight_bytes(config_here(model.config, resolve(of_node(0)))));
  Settings uneven = of_node(1);
  uneven.tensor_split = "3,1";
  EXPECT_EQ(config_here(model.config, resolve(uneven)).num_kv_heads, 2);
}

// Mapped weights are read in parts. Synthetic weights are made as a whole, and then the share is copied.
TEST_F(NodesTest, NeedTheMemoryOfTheirShare) {
  const Model tiny = open_model(test::source_path("models/tiny-gpt-oss"), {}),
              made = open_model("synthetic:gpt-oss-20b", {});
  const ResolvedSettings setup = resolve(of_node(1));
  EXPECT_EQ(kept_weight_bytes(tiny, {}, setup), weight_bytes(config_here(tiny.config, setup)));
  EXPECT_LT(kept_weight_bytes(tiny, {}, setup), weight_bytes(tiny.config));
  EXPECT_EQ(kept_weight_bytes(made, {}, setup),
            weight_bytes(config_here(made.config, setup)) + weight_bytes(made.config));
}

TEST_F(NodesTest, TellWhatDecidesResults) {
  const Model tiny = open_model(test::source_path("models/tiny-gpt-oss"), {});
  const auto facts_of = [&](const Settings& settings) { return node_options(tiny, resolve(settings)).facts; };
  const nodes::Facts head = facts_of(of_node(0));
  EXPECT_EQ(nodes::difference(head, 1, facts_of(of_node(1))), std::nullopt);
  const auto difference = [&](const std::function<void(Settings&)>& change) {
    Settings other = of_node(1);
    change(other);
    return nodes::difference(head, 1, facts_of(other)).value_or("none");
  };
  EXPECT_THAT(difference([](Settings& s) { s.kv_dtype = "fp8"; }), HasSubstr("KV cache FP8"));
  EXPECT_THAT(difference([](Settings& s) { s.mxfp4_layers = "o"; }), HasSubstr("o MXFP4"));
  EXPECT_THAT(difference([](Settings& s) { s.isa = "portable"; }),
              HasSubstr("cpu portable, experts in float"));
  EXPECT_EQ(difference([](Settings& s) { s.threads = 7; }), "none");
  EXPECT_EQ(difference([](Settings& s) { s.expert_parallel = true; }),
            "node 1 has a different split than node 0: parts 1,1, whole experts; node 0 has parts 1,1");
  // The longest possible text is sent and compared completely.
  Settings eight = of_node(1);
  eight.nodes = 8;
  eight.expert_parallel = true;
  eight.tensor_split = "1000,1000,1000,1000,1000,1000,1000,1000";
  const Model model = open_model("synthetic:gpt-oss-20b", {});
  nodes::Facts facts = node_options(model, resolve(eight)).facts;
  EXPECT_LE(at(facts, nodes::Fact::kSplit).size(), nodes::kFactBytes);
}

TEST_F(NodesTest, AreNoMoreThanTheHeadsOfKeysAndValuesDivideInto) {
  const Model tiny = open_model(test::source_path("models/tiny-gpt-oss"), {});
  Settings three = of_node(0);
  three.nodes = 3;
  EXPECT_THAT(error_of([&] { node_options(tiny, resolve(three)); }),
              HasSubstr("has 2 key/value heads, which can't be split evenly into 3 parts"));
}

}  // namespace
}  // namespace nibble
