// Tests dense layers that are FP8 in the checkpoint: the device must hold their codes and scales unchanged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "core/threads/thread_pool.h"
#include "model/quantize.h"
#include "tests/backend/cuda/emulated/four_heads.h"
#include "tests/backend/cuda/pretended.h"
#include "tests/backend/fulfilment.h"
#include "tests/error_of.h"

namespace nibble::cuda {
namespace {

using testing::HasSubstr;

constexpr DenseFormats kAllFp8{Format::kE4m3, Format::kE4m3, Format::kE4m3};

BackendOptions options_of(const DenseFormats& dense) {
  BackendOptions options = small_options();
  options.dense = dense;
  return options;
}

std::vector<float> logits_of(std::shared_ptr<const Weights> weights, const DenseFormats& dense,
                             const CudaOptions& own) {
  const std::vector<TokenId> ids = random_ids(9, weights->config.vocab, 3);
  Feeder feeder(make(std::move(weights), options_of(dense), own), Fulfilment::kNumPages);
  feeder.feed_in_chunks(0, std::span(ids).first(8), 8);
  feeder.feed_in_chunks(0, std::span(ids).subspan(8), 1);
  return feeder.logits(0);
}

// Returns weights such as those of an FP8 checkpoint. The host quantises by the same rule as the device does
// for --fp8-layers, so both must give the same bits.
std::shared_ptr<const Weights> in_fp8(const std::shared_ptr<const Weights>& weights,
                                      const DenseFormats& which) {
  ThreadPool pool(1);
  return quantise_dense(weights, which, pool);
}

TEST(Fp8Weights, GiveTheBitsOfTheSameWeightsQuantisedOnTheDevice) {
  const auto stored = open_shared("tests/golden/random/b");
  EXPECT_EQ(logits_of(in_fp8(stored, kAllFp8), {}, pretended()), logits_of(stored, kAllFp8, pretended()));
}

// Tests that each rank packs its own columns of o, and the rows of its own heads of q, k and v.
TEST(Fp8Weights, GiveTheSameBitsInSharesOfTwoRanks) {
  const auto stored = open_shared("models/tiny-gpt-oss");
  CudaOptions two_ranks = pretended();
  two_ranks.gpus = {0, 0};
  two_ranks.parts = {1, 1};
  EXPECT_EQ(logits_of(in_fp8(stored, kAllFp8), {}, two_ranks), logits_of(stored, kAllFp8, two_ranks));
}

TEST(Fp8Weights, MayBeThoseOfOneGroupOnly) {
  const auto stored = open_shared("tests/golden/random/b");
  const DenseFormats only_o{Format::kBf16, Format::kE4m3, Format::kBf16};
  EXPECT_EQ(logits_of(in_fp8(stored, only_o), {}, pretended()), logits_of(stored, only_o, pretended()));
}

TEST(Fp8Weights, ThatNeedASecondFormatOrAConversionAreRefusedInOneLineWithTheFlag) {
  const auto stored = open_shared("tests/golden/random/b");
  Weights mixed = *in_fp8(stored, kAllFp8);
  mixed.layers[0].k = stored->layers[0].k;
  const auto shared = std::make_shared<const Weights>(mixed);
  EXPECT_THAT(error_of([&] { make(shared, options_of({}), pretended()); }),
              HasSubstr("qkv is FP8 in some matrices and BF16 in others, the CUDA backend needs one format: "
                        "--fp8-layers qkv converts the others"));
  const DenseFormats fp8_qkv{Format::kE4m3, Format::kBf16, Format::kBf16};
  EXPECT_EQ(error_of([&] { make(shared, options_of(fp8_qkv), pretended()); }), "accepted");
  const DenseFormats mxfp4_head{Format::kBf16, Format::kBf16, Format::kMxfp4};
  EXPECT_THAT(error_of([&] { make(in_fp8(stored, kAllFp8), options_of(mxfp4_head), pretended()); }),
              HasSubstr("lm_head is FP8, and the CUDA backend does not convert FP8 to MXFP4"));
}

}  // namespace
}  // namespace nibble::cuda
