// Tests which parameters SampleRows refuses. Needs no GPU.
#include "backend/cuda/sample/sample_rows.h"

#include <gtest/gtest.h>

#include <vector>

namespace nibble::cuda {
namespace {

using Tokens = std::vector<TokenId>;

TEST(CudaSampleDeathTest, WhatTheEngineRefusesIsACallersBug) {
  SampleRow row;
  SampleRows rows(2);
  const auto add = [&](const SampleParams& params, const Tokens& output = {}) {
    rows.start(&row);
    rows.add({.sample = &params, .output = output}, SamplePosition::at(0));
  };
  EXPECT_DEATH(add({.logit_bias = {{2, 1}}}), "token 2 of 2");
  EXPECT_DEATH(add({.presence_penalty = 1}, {-1}), "token -1 of 2");
  EXPECT_DEATH(add({.top_p = 0}), "top_p 0");
  EXPECT_DEATH(add({.num_logprobs = 21}), "21 log-probabilities, at most 20");
}

}  // namespace
}  // namespace nibble::cuda
