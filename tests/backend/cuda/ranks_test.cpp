// Tests a model shared by several ranks. On one GPU the ranks take turns (CudaOptions::gpus names it several
// times). With enough GPUs each rank also gets its own. Needs a GPU: not in ./test (docs/gpu.md).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "backend/cuda/cuda_backend.h"
#include "core/errors/error.h"
#include "model/checkpoint/synthetic.h"
#include "model/golden/golden.h"
#include "tests/backend/cuda/golden_agreement.h"
#include "tests/backend/cuda/gpus_of_ranks.h"
#include "tests/backend/cuda/pretended.h"
#include "tests/backend/fulfilment.h"
#include "tests/error_of.h"

namespace nibble::cuda {
namespace {

CudaOptions shared_among(std::vector<int> gpus, std::vector<int> parts = {}) {
  CudaOptions own = pretended();
  own.parts = parts.empty() ? std::vector<int>(gpus.size(), 1) : std::move(parts);
  own.gpus = std::move(gpus);
  return own;
}
CudaOptions with_whole_experts(CudaOptions own) {
  own.have_whole_experts = true;
  return own;
}
CudaOptions with_own_sequences(CudaOptions own) {
  own.have_own_sequences = true;
  return own;
}

BackendOptions options_with(int num_pages, const DenseFormats& dense = {}, Format kv = Format::kBf16) {
  BackendOptions options;
  options.num_pages = num_pages;
  options.max_batch_tokens = 1024;
  options.dense = dense;
  options.kv_format = kv;
  return options;
}

constexpr DenseFormats kFp8{Format::kE4m3, Format::kE4m3, Format::kE4m3},
    kMxfp4{Format::kMxfp4, Format::kMxfp4, Format::kMxfp4};

// Returns the number of KV caches: one per rank if ranks have sequences of their own, else one.
int num_kv_caches(const CudaOptions& own) { return own.have_own_sequences ? own.num_ranks() : 1; }
std::unique_ptr<Backend> make_shared_backend(const std::shared_ptr<const Weights>& weights,
                                             BackendOptions options, const CudaOptions& own) {
  options.num_kv_caches = num_kv_caches(own);
  return make(weights, options, own);
}

Fulfilment shared_fulfilment(const std::string& name, const CudaOptions& own, const DenseFormats& dense = {},
                             Format kv = Format::kBf16) {
  return {name,
          [=](auto weights) {
            return make_shared_backend(weights, options_with(Fulfilment::kNumPages, dense, kv), own);
          },
          num_kv_caches(own)};
}

std::string name_of_bits(const testing::TestParamInfo<std::tuple<Fulfilment, const char*>>& info) {
  return std::get<0>(info.param).name;
}
constexpr const char* kTiny{"../../../models/tiny-gpt-oss"};  // relative to the folder of the random models

const CudaOptions kTwo = shared_among(one_gpu(2)), kThree = shared_among(one_gpu(3)),
                  kTwoOfExperts = with_whole_experts(kTwo), kThreeOfExperts = with_whole_experts(kThree),
                  kTwoOfSequences = with_own_sequences(kTwo), kThreeOfSequences = with_own_sequences(kThree);

// Random model b has 3 KV heads, one for each of three ranks, and 3.5 tiles of intermediate columns, which
// the ranks share unevenly.
INSTANTIATE_TEST_SUITE_P(
    CudaThreeRanks, BackendBits,
    testing::Combine(testing::Values(shared_fulfilment("bf16", kThree),
                                     shared_fulfilment("fp8", kThree, kFp8, Format::kE4m3),
                                     shared_fulfilment("mxfp4", kThree, kMxfp4),
                                     shared_fulfilment("experts", kThreeOfExperts),
                                     shared_fulfilment("sequences", kThreeOfSequences),
                                     shared_fulfilment("sequences_fp8", kThreeOfSequences, kFp8,
                                                       Format::kE4m3)),
                     testing::Values("b")),
    name_of_bits);
INSTANTIATE_TEST_SUITE_P(CudaTwoRanks, BackendBits,
                         testing::Combine(testing::Values(shared_fulfilment("bf16", kTwo),
                                                          shared_fulfilment("experts", kTwoOfExperts),
                                                          shared_fulfilment("sequences", kTwoOfSequences)),
                                          testing::Values(kTiny)),
                         name_of_bits);
INSTANTIATE_TEST_SUITE_P(CudaTwoRanks, BackendOutputs,
                         testing::Values(shared_fulfilment("bf16", kTwo),
                                         shared_fulfilment("experts", kTwoOfExperts),
                                         shared_fulfilment("sequences", kTwoOfSequences)),
                         [](const auto& instance) { return instance.param.name; });

// Tests with one GPU per rank. Skipped on machines with fewer GPUs.
class CudaGpus : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (num_gpus() < GetParam()) GTEST_SKIP() << "this machine has " << num_gpus() << " GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaGpus, testing::Values(2, 4, 8), testing::PrintToStringParamName());

// Returns a config with 8 KV heads and 9.5 tiles of columns: shares are uneven, the last has half a tile.
Config eight_heads() {
  Config config = *named_config("gpt-oss-20b");
  config.num_layers = 4;
  config.layer_kinds.resize(4);
  config.hidden = 320;
  config.intermediate = 608;
  config.num_heads = 16;
  config.num_kv_heads = 8;
  config.num_experts = 8;
  config.experts_per_token = 4;
  config.vocab = 1000;
  return config;
}

// Returns the logits of two sequences. The sequences are fed as prompts, with numbers of rows on both sides
// of the all-reduce protocols' thresholds, then token by token.
std::vector<float> logits_of(const std::shared_ptr<const Weights>& weights, const CudaOptions& own) {
  Feeder feeder(make_shared_backend(weights, options_with(Fulfilment::kNumPages), own), Fulfilment::kNumPages,
                num_kv_caches(own));
  const std::vector<TokenId> ids = random_ids(320, weights->config.vocab, 3);
  const std::span<const TokenId> all(ids);
  feeder.feed({{0, all.first(280)}, {1, all.first(9)}});
  feeder.feed({{1, all.subspan(9, 11)}});
  for (size_t i = 0; i < 4; ++i) feeder.feed({{0, all.subspan(280 + i, 1)}, {1, all.subspan(20 + i, 1)}});
  for (size_t i = 0; i < 4; ++i) feeder.feed({{0, all.subspan(284 + i, 1)}});
  feeder.feed({{1, all.subspan(24, 20)}, {0, all.subspan(288, 1)}});
  std::vector<float> logits = feeder.logits(0);
  logits.insert(logits.end(), feeder.logits(1).begin(), feeder.logits(1).end());
  return logits;
}

// Returns the median of the rows' relative distances. A mean would be too large, because in some rows the
// router chooses another expert.
double median_distance(const std::vector<float>& a, const std::vector<float>& b, int vocab) {
  EXPECT_EQ(a.size(), b.size());
  std::vector<double> distances;
  for (size_t first = 0; first < a.size(); first += static_cast<size_t>(vocab)) {
    double error = 0, norm = 0;
    for (size_t i = first; i < first + static_cast<size_t>(vocab); ++i) {
      error += std::pow(double{a[i]} - double{b[i]}, 2);
      norm += std::pow(double{b[i]}, 2);
    }
    distances.push_back(std::sqrt(error / norm));
  }
  std::sort(distances.begin(), distances.end());
  return distances[distances.size() / 2];
}

TEST(CudaRanks, HaveTheLogitsOfOneGpuHoweverManyThereAre) {
  const Config config = eight_heads();
  const auto weights = std::make_shared<const Weights>(make_synthetic(config, "eight heads"));
  const std::vector<float> alone = logits_of(weights, pretended());
  for (const auto& parts :
       std::vector<std::vector<int>>{{1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1}, {3, 1}}) {
    for (const auto& [of_experts, of_sequences] :
         {std::pair{false, false}, std::pair{true, false}, std::pair{false, true}, std::pair{true, true}}) {
      CudaOptions own = shared_among(one_gpu(static_cast<int>(parts.size())), parts);
      own.have_whole_experts = of_experts;
      own.have_own_sequences = of_sequences;
      const std::vector<float> shared = logits_of(weights, own);
      const double distance = median_distance(shared, alone, config.vocab);
      const std::string split =
          fmt::format("{}{}{}", fmt::join(parts, ":"), of_experts ? ", whole experts" : "",
                      of_sequences ? ", own sequences" : "");
      fmt::print("{}: {:.1e} from one\n", split, distance);
      EXPECT_LT(distance, 0.01) << split;  // allows some bfloat16 numbers to be rounded the other way
      EXPECT_EQ(logits_of(weights, own), shared) << split;
    }
  }
}

// A rank may have no expert that a token chose, or none that any token of the step chose, or fewer experts
// than a token chooses. Bits are the same in steps of one token, few tokens and many.
TEST(CudaRanks, HaveTheLogitsOfOneGpuWhereSomeHaveNoneOfTheChosenExperts) {
  Config config = eight_heads();
  config.num_layers = 2;
  config.layer_kinds.resize(2);
  config.num_experts = 16;
  config.experts_per_token = 2;
  const auto weights = std::make_shared<const Weights>(make_synthetic(config, "sixteen experts"));
  const std::vector<TokenId> ids = random_ids(29, config.vocab, 5);
  const auto logits = [&](const CudaOptions& own, const std::vector<size_t>& chunks) {
    Feeder feeder(make(weights, options_with(Fulfilment::kNumPages), own), Fulfilment::kNumPages);
    size_t first = 0;
    for (const size_t count : chunks) {
      feeder.feed({{0, std::span(ids).subspan(first, count)}});
      first += count;
    }
    return feeder.logits(0);
  };
  const std::vector<size_t> chunks{17, 1, 1, 2, 8}, others{1, 1, 2, 4, 1, 9, 2, 1, 8};
  const std::vector<float> alone = logits(pretended(), chunks);
  for (const auto& parts : std::vector<std::vector<int>>{{1, 1}, {14, 2}, {1, 1, 1, 1, 1, 1, 1, 1}}) {
    const CudaOptions own = with_whole_experts(shared_among(one_gpu(static_cast<int>(parts.size())), parts));
    const std::vector<float> shared = logits(own, chunks);
    EXPECT_LT(median_distance(shared, alone, config.vocab), 0.01) << fmt::format("{}", fmt::join(parts, ":"));
    EXPECT_EQ(logits(own, others), shared);
  }
}

// Placing ranks on other GPUs changes no bit.
TEST_P(CudaGpus, GiveTheBitsThatRanksOnOneGpuHave) {
  const auto weights = std::make_shared<const Weights>(make_synthetic(eight_heads(), "eight heads"));
  const std::vector<float> on_one = logits_of(weights, shared_among(one_gpu(GetParam())));
  for (int time = 0; time < 5; ++time)
    EXPECT_EQ(logits_of(weights, shared_among(a_gpu_each(GetParam()))), on_one);
  for (const auto& divided : {with_whole_experts, with_own_sequences})
    EXPECT_EQ(logits_of(weights, divided(shared_among(a_gpu_each(GetParam())))),
              logits_of(weights, divided(shared_among(one_gpu(GetParam())))));
}

// The logits have the same bits whichever rank has a sequence, and however many rows each rank has.
TEST(CudaRanks, HaveTheSameBitsWhicheverHasTheSequence) {
  const auto weights = std::make_shared<const Weights>(make_synthetic(eight_heads(), "eight heads"));
  const std::vector<TokenId> ids = random_ids(150, weights->config.vocab, 7);
  const std::span<const TokenId> all(ids);
  for (const CudaOptions& own : {kTwoOfSequences, with_whole_experts(kThreeOfSequences)}) {
    const int count = own.num_ranks();
    const auto feeder = [&] {
      return Feeder(make_shared_backend(weights, options_with(Fulfilment::kNumPages), own),
                    Fulfilment::kNumPages, count);
    };
    Feeder together = feeder();
    // Sequence n belongs to rank n modulo the number of ranks. All sequences have the same text. It is fed as
    // prompts whose attention runs in tiles, in chunks of few rows, and token by token.
    std::vector<Feeder::Part> parts;
    for (int n = 0; n < 2 * count; ++n) parts.push_back({n, all.first(n < count ? 100 : 40)});
    together.feed(parts);
    for (size_t at = 100; at < 104; ++at)
      for (int n = 0; n < count; ++n)
        together.feed({{n, all.subspan(at, 1)}, {n + count, all.subspan(at, 1)}});
    parts.clear();
    for (int n = 0; n < count; ++n) parts.push_back({n, all.subspan(104, n == 0 ? 46 : 1)});
    together.feed(parts);
    for (int n = 1; n < count; ++n) together.feed_in_chunks(n, all.subspan(105), 9);
    Feeder alone = feeder();
    alone.feed_in_chunks(0, all, 150);
    for (int n = 0; n < count; ++n) EXPECT_EQ(together.logits(n), alone.logits(0)) << "sequence " << n;
  }
}

// Steps that choose tokens are recorded in graphs, and each rank pads its rows with spare rows.
TEST(CudaRanks, WithSequencesOfTheirOwnChooseTheSameTokensInBatchesOfEverySize) {
  const auto weights = open_shared("models/tiny-gpt-oss");
  constexpr int kSequences{11}, kPages{Fulfilment::kNumPages};
  const SampleParams greedy;
  const auto texts_of = [&](int at_once, int count) {
    const auto backend = make_shared_backend(weights, options_with(kPages), kTwoOfSequences);
    std::vector<std::vector<TokenId>> texts;
    for (int n = 0; n < count; ++n) texts.push_back(random_ids(3 + n, weights->config.vocab, n + 1));
    for (int first = 0; first < count; first += at_once)
      for (int step = 0; step < 6; ++step) {
        std::vector<std::array<PageId, 2>> pages;  // each sequence's pages of full and of sliding layers
        std::vector<OutputRow> outputs;
        const int end = std::min(count, first + at_once);
        for (int n = first; n < end; ++n) {
          // Most sequences belong to the second rank.
          const int page = n % 4 == 0 ? n : kPages + n;
          pages.push_back({static_cast<PageId>(page), static_cast<PageId>(page + kSequences)});
          const auto last = static_cast<int>(texts[n].size()) - 1;
          outputs.push_back({.token_index = step == 0 ? last : 0, .sample = &greedy});
        }
        std::vector<nibble::Run> runs;
        for (int n = first; n < end; ++n) {
          const std::span<const TokenId> text(texts[n]);
          const size_t known = step == 0 ? 0 : text.size() - 1;
          const std::span<const PageId> tables(pages[n - first]);
          runs.push_back({text.subspan(known),
                          static_cast<int>(known),
                          {tables.first(1)},
                          {tables.last(1)},
                          std::span(outputs).subspan(n - first, 1)});
        }
        const StepResult result = backend->step({.runs = runs});
        for (int n = first; n < end; ++n) texts[n].push_back(result.outputs[n - first].token);
      }
    return texts;
  };
  const auto alone = texts_of(1, kSequences);
  for (const int at_once : {2, 3, 5, 9, kSequences})
    EXPECT_EQ(texts_of(at_once, kSequences), alone) << at_once;
}

// NCCL adds in the order of ranks too. NIBBLE_TEST_NCCL: path of the NCCL library. Needs one GPU per rank.
TEST_P(CudaGpus, HaveTheSameBitsWhereNcclConnectsThem) {
  const char* const library = std::getenv("NIBBLE_TEST_NCCL");
  if (!library) GTEST_SKIP() << "NIBBLE_TEST_NCCL names no library";
  const auto weights = std::make_shared<const Weights>(make_synthetic(eight_heads(), "eight heads"));
  CudaOptions own = shared_among(a_gpu_each(GetParam()));
  const std::vector<float> written = logits_of(weights, own),
                           written_of_sequences = logits_of(weights, with_own_sequences(own));
  own.nccl = library;
  for (int time = 0; time < 3; ++time) EXPECT_EQ(logits_of(weights, own), written);
  EXPECT_EQ(logits_of(weights, with_own_sequences(own)), written_of_sequences);
  own.gpus = one_gpu(GetParam());
  EXPECT_NE(error_of([&] { make(weights, options_with(80), own); }).find("NCCL accepts each GPU only once"),
            std::string::npos);
}

// Weights that are generated on the device are split like weights copied from the host.
TEST(CudaRanks, HaveTheSameSharesOfWeightsThatTheDeviceMakes) {
  const Config config = eight_heads();
  const auto copied = std::make_shared<const Weights>(make_synthetic(config, "copied")),
             described = std::make_shared<const Weights>(describe_synthetic(config, "described"));
  const CudaOptions own = shared_among({0, 0}, {3, 1}), of_experts = with_whole_experts(own);
  EXPECT_EQ(logits_of(described, own), logits_of(copied, own));
  EXPECT_EQ(logits_of(described, of_experts), logits_of(copied, of_experts));
}

TEST(CudaRanks, AgreeWithGoldenData) { expect_golden_agreement(kTwo); }
TEST(CudaRanks, OfWholeExpertsAgreeWithGoldenData) { expect_golden_agreement(kTwoOfExperts); }
TEST(CudaRanks, WithSequencesOfTheirOwnAgreeWithGoldenData) { expect_golden_agreement(kTwoOfSequences); }
TEST_P(CudaGpus, AgreeWithGoldenData) {
  if (GetParam() > 2) GTEST_SKIP() << "the miniature model has two heads of keys and values";
  expect_golden_agreement(shared_among(a_gpu_each(2)));
}

TEST(CudaRanks, RefuseWhatTheyCannotRun) {
  const auto weights = open_shared("models/tiny-gpt-oss");
  const auto refusal = [&](const CudaOptions& own) {
    return error_of([&] { make(weights, options_with(80), own); });
  };
  EXPECT_NE(refusal(shared_among(one_gpu(3))).find("2 key/value heads"), std::string::npos);
  EXPECT_NE(refusal(shared_among({0, num_gpus()})).find("--gpus 0,"), std::string::npos);
  CudaOptions many = pretended();
  many.parts = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_NE(refusal(many).find("at most 8 GPUs"), std::string::npos);
  BackendOptions short_steps = options_with(80);
  short_steps.max_batch_tokens = 2;
  EXPECT_NE(error_of([&] {
              make_shared_backend(weights, short_steps, kTwoOfSequences);
            }).find("--max-batch-tokens 2 is too small"),
            std::string::npos);
}

}  // namespace
}  // namespace nibble::cuda
