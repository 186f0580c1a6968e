// Runs a model shared by nodes with one GPU each. Joining, batches and shutdown run over the loopback device,
// kernels run on the emulated GPU, and a fake NCCL connects the nodes; its ranks are threads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <thread>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/ranks/connection.h"
#include "backend/cuda/ranks/nccl_sum.h"
#include "model/checkpoint/synthetic.h"
#include "tests/backend/cuda/emulated/four_heads.h"
#include "tests/backend/cuda/pretended.h"
#include "tests/backend/fulfilment.h"
#include "tests/nodes/group.h"

namespace nibble::cuda {
namespace {

CudaOptions node_of(std::vector<int> parts, int rank, ExpertSplit split) {
  CudaOptions own = pretended();
  own.parts = std::move(parts);
  own.node_rank = rank;
  own.have_whole_experts = split == ExpertSplit::kWhole;
  own.nccl = FAKE_NCCL;
  return own;
}

std::unique_ptr<Backend> shared_by(std::shared_ptr<const Weights> weights, const std::vector<int>& parts,
                                   ExpertSplit split = ExpertSplit::kUnits) {
  const nodes::MakeRank make_rank = [parts, split](const auto& whole, const BackendOptions& mine) {
    return make(whole, mine, node_of(parts, mine.links->share().rank, split));
  };
  return std::make_unique<nodes::SharedBackend>(std::move(weights), parts, small_options(), make_rank, split,
                                                new_group(node_of(parts, 0, split)));
}

// Feeds a prompt in chunks of `chunk` tokens, then the remaining tokens one by one. Each all-reduce of the
// prompt needs several launches.
std::vector<float> logits_of(std::unique_ptr<Backend> backend, const std::vector<TokenId>& ids, int chunk) {
  Feeder feeder(std::move(backend), Fulfilment::kNumPages);
  feeder.feed_in_chunks(0, std::span(ids).first(40), chunk);
  feeder.feed_in_chunks(0, std::span(ids).subspan(40), 1);
  return feeder.logits(0);
}

TEST(EmulatedNodes, HaveTheLogitsOfOneGpuAndTheSameBitsHoweverAPromptIsCut) {
  const auto weights = std::make_shared<const Weights>(make_synthetic(four_heads(), "four heads"));
  const std::vector<TokenId> ids = random_ids(43, weights->config.vocab, 3);
  const std::vector<float> alone = logits_of(make(weights, small_options(), pretended()), ids, 40);
  for (const ExpertSplit split : {ExpertSplit::kUnits, ExpertSplit::kWhole}) {
    const std::vector<float> shared = logits_of(shared_by(weights, {3, 1}, split), ids, 40);
    EXPECT_EQ(logits_of(shared_by(weights, {3, 1}, split), ids, 7), shared);
    ASSERT_EQ(shared.size(), alone.size());
    double error = 0, norm = 0;
    for (size_t i = 0; i < alone.size(); ++i) {
      error += std::pow(double{shared[i]} - double{alone[i]}, 2);
      norm += std::pow(double{alone[i]}, 2);
    }
    EXPECT_GT(norm, 1);
    EXPECT_LT(std::sqrt(error / norm), 0.02);  // allows some bfloat16 numbers to be rounded the other way
  }
}

// Returns terms of very different sizes: another order of additions would give other bits.
float term(int rank, int part, size_t at) {
  return std::ldexp(static_cast<float>((at * 37 + static_cast<size_t>(rank * 11 + part * 5)) % 101) - 50.f,
                    (rank * 7 + part * 3) % 10);
}

TEST(EmulatedNodes, AddUpInTheOrderOfRanks) {
  constexpr int kRanks{3}, kHidden{64}, kRows{40};
  Config config = *named_config("gpt-oss-20b");
  config.hidden = kHidden;
  std::vector<Share> shares(kRanks, whole_of(config));
  const auto nccl = Nccl::load(FAKE_NCCL);
  const GroupId group = nccl->new_group();
  for (const int num_parts : {1, 4}) {
    const size_t count = size_t{kRows} * kHidden;
    std::vector<float> expected(count);
    for (size_t i = 0; i < count; ++i) {
      expected[i] = 0.1f;
      for (int rank = 0; rank < kRanks; ++rank) {
        float own = term(rank, 0, i);
        for (int part = 1; part < num_parts; ++part) own += term(rank, part, i);
        expected[i] += own;
      }
    }
    std::vector<std::vector<float>> sums(kRanks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank] {
        const Workspace unused{};
        const NcclSum own({nccl, num_parts == 1 ? group : GroupId{7}, shares}, rank, config, kRows, unused);
        std::vector<float> parts, x(count, 0.1f);
        for (int part = 0; part < num_parts; ++part)
          for (size_t i = 0; i < count; ++i) parts.push_back(term(rank, part, i));
        own.sum({Stream{}, this_target()},
                {Operation::kProject, {parts.data(), num_parts, count, kHidden, x.data(), x.data(), {}}},
                {.half = 0, .number = 0, .num_tokens = kRows}, Turn::kSendAndWait);
        sums[static_cast<size_t>(rank)] = std::move(x);
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::vector<float>& sum : sums) EXPECT_EQ(sum, expected) << num_parts;
  }
}

TEST(EmulatedNodes, AreLostWithTheWordsOfAnNcclThatFails) {
  const auto weights = std::make_shared<const Weights>(make_synthetic(four_heads(), "four heads"));
  Feeder feeder(shared_by(weights, {1, 1}), Fulfilment::kNumPages);
  const std::vector<TokenId> ids = random_ids(2, weights->config.vocab, 3);
  feeder.feed_in_chunks(0, std::span(ids).first(1), 1);
  setenv("FAKE_NCCL_ERROR_AT", "1", 1);
  try {
    feeder.feed_in_chunks(0, std::span(ids).subspan(1), 1);
    ADD_FAILURE() << "the step ran";
  } catch (const nodes::NodeLost& lost) {
    EXPECT_NE(std::string(lost.what()).find("NCCL 2.28.9: sending terms: a fake error"), std::string::npos)
        << lost.what();
  }
  unsetenv("FAKE_NCCL_ERROR_AT");
}

TEST(EmulatedNodes, SayWhichSumRuns) {
  const auto weights = std::make_shared<const Weights>(make_synthetic(four_heads(), "four heads"));
  int num_sums = 0;
  for (const KernelChoice& row : shared_by(weights, {1, 1})->kernels())
    num_sums += row.kernel == "sum over 2 nodes: moved by NCCL 2.28.9, added by rank";
  EXPECT_EQ(num_sums, 2);
}

}  // namespace
}  // namespace nibble::cuda
