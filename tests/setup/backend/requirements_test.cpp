#include "setup/backend/requirements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "model/checkpoint/synthetic.h"
#include "reference/reference_backend.h"
#include "tests/error_of.h"

namespace nibble {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::vector<KernelChoice> kKernels{
    {Operation::kQkv, "BF16", "BF16", "qkv strips", "measured"},
    {Operation::kExpertsUp, "MXFP4", "BF16", "up strips", "measured", 1, 64},
    {Operation::kExpertsUp, "MXFP4", "F32", "up tiles", "measured", 65},
    {Operation::kExpertsDown, "MXFP4", "BF16", "down strips", "measured"}};

std::string refusal(std::string_view list) {
  return error_of([&] { check_requirements(read_requirements(list), "cuda", kKernels); });
}

TEST(Requirements, WhatRunsAsRequiredIsAccepted) {
  for (const char* list : {"", "qkv=bf16", "qkv=BF16/bf16", "experts=mxfp4", "experts up=mxfp4",
                           "experts down=mxfp4/bf16,qkv=bf16"})
    EXPECT_EQ(refusal(list), "accepted") << list;
}

TEST(Requirements, AnotherFormatIsRefusedWithTheOneThatRuns) {
  EXPECT_THAT(refusal("qkv=mxfp4"), AllOf(HasSubstr("'qkv=mxfp4'"), HasSubstr("cuda"), HasSubstr("bf16/bf16"),
                                          HasSubstr("qkv strips")));
  EXPECT_THAT(refusal("experts=mxfp4,qkv=f32"), HasSubstr("'qkv=f32'"));
}

TEST(Requirements, EveryRowOfAnOperationHasToMeetIt) {
  EXPECT_THAT(refusal("experts=mxfp4/bf16"),
              AllOf(HasSubstr("experts up"), HasSubstr("mxfp4/f32"), HasSubstr("up tiles")));
}

// read_requirements() refuses these words before a model is opened.
TEST(Requirements, UnknownWordsAreAnsweredWithThoseThatAreKnown) {
  const auto refusal_on_reading = [](std::string_view list) {
    return error_of([&] { read_requirements(list); });
  };
  EXPECT_THAT(refusal_on_reading("expert=mxfp4"),
              AllOf(HasSubstr("operation 'expert'"), HasSubstr("embed, rms_norm, qkv, append, attend"),
                    HasSubstr("experts")));
  EXPECT_THAT(refusal_on_reading("experts sideways=mxfp4"), HasSubstr("operation 'experts sideways'"));
  EXPECT_THAT(refusal_on_reading("=mxfp4"), HasSubstr("operation ''"));
  EXPECT_THAT(refusal_on_reading("experts=mxfp8"),
              AllOf(HasSubstr("'mxfp8'"), HasSubstr("expected one of f32, bf16, mxfp4, fp8")));
  EXPECT_THAT(refusal_on_reading("qkv=bf16/"), HasSubstr("expected one of f32, bf16, mxfp4, fp8"));
  EXPECT_THAT(refusal_on_reading("experts=mxfp4/mxfp6"), HasSubstr("mxfp8, mxfp8x2"));
  for (const char* list : {"qkv", "qkv,experts=mxfp4", ",qkv=bf16"})
    EXPECT_THAT(refusal_on_reading(list), HasSubstr("expected OPERATION=WEIGHTS")) << list;
}

TEST(Requirements, AnOperationOfAnotherBackendIsAnsweredWithThoseOfThisOne) {
  EXPECT_THAT(refusal("append=bf16"), AllOf(HasSubstr("the backend cuda has no operation 'append'"),
                                            HasSubstr("expected one of qkv, experts")));
}

// --require must accept every operation and format that a backend reports.
TEST(Requirements, EverythingThatABackendReportsCanBeRequired) {
  Config config;
  config.num_layers = 1;
  config.hidden = config.intermediate = 32;
  config.num_heads = config.num_kv_heads = 1;
  config.head_dim = 64;
  config.num_experts = config.experts_per_token = 1;
  config.vocab = 32;
  config.layer_kinds = {LayerKind::kFull};
  const auto weights = std::make_shared<const Weights>(make_synthetic(config, "test"));
  const BackendOptions options{.num_pages = 2};
  for (const auto& kernels :
       {cpu::make(weights, options)->kernels(), reference::make(weights, options)->kernels()}) {
    EXPECT_GT(kernels.size(), 5u);
    for (const KernelChoice& row : kernels) {
      const std::string list = std::string(name(row.operation)) + "=" + row.weights + "/" + row.activations;
      EXPECT_EQ(error_of([&] { check_requirements(read_requirements(list), "", kernels); }), "accepted")
          << list;
    }
  }
}

}  // namespace
}  // namespace nibble
