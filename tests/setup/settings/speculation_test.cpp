#include "setup/settings/speculation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "setup/start/resolve.h"
#include "tests/error_of.h"

namespace nibble {
namespace {

using testing::HasSubstr;

speculative::SpeculationOptions speculate(const char* how) {
  Settings settings;
  settings.speculate = how;
  return read_speculation(settings);
}
speculative::SpeculationOptions config(const char* json) {
  Settings settings;
  settings.speculative_config = json;
  return read_speculation(settings);
}
std::string config_refusal(const char* json) {
  return error_of([&] { config(json); });
}

TEST(Speculate, SaysWhichDraftersTakePart) {
  EXPECT_TRUE(speculate("off").drafters.empty());
  EXPECT_TRUE(read_speculation({}).by_cost);
  EXPECT_EQ(read_speculation({}).drafters.size(), speculate("auto").drafters.size());
  EXPECT_EQ(speculate("auto").drafters.size(), 3u);
  EXPECT_TRUE(speculate("auto").by_cost);
  EXPECT_EQ(speculate("ngram").drafters.size(), 2u);  // ngram, and the request's prediction
  EXPECT_FALSE(speculate("suffix").by_cost);
}

TEST(Speculate, ReachesTheEngine) {
  Settings settings;
  settings.speculate = "suffix";
  settings.backend = "cpu";
  EXPECT_EQ(resolve(settings).speculation.drafters.size(), 2u);
}

TEST(Speculate, NamesTheFolderOfADraftHead) {
  const auto with_head = speculate("eagle3=some/folder");
  EXPECT_EQ(with_head.draft_head, "some/folder");
  EXPECT_EQ(with_head.drafters.size(), 4u);
  EXPECT_TRUE(with_head.by_cost);
  for (const char* how : {"eagle3", "eagle3=", "medusa", ""})
    EXPECT_THAT(error_of([&] { speculate(how); }),
                HasSubstr("expected one of auto, off, ngram, suffix, eagle3=FOLDER, model=MODEL"));
}

TEST(Speculate, NamesAModelThatDrafts) {
  const auto with_model = speculate("model=tiny");
  EXPECT_EQ(with_model.draft_model, "tiny");
  EXPECT_EQ(with_model.drafters.size(), 4u);
  EXPECT_TRUE(with_model.by_cost);
}

TEST(SpeculativeConfig, HasTheMeaningOfVllms) {
  const auto model = config(R"({"method": "draft_model", "model": "tiny", "num_speculative_tokens": 3})");
  EXPECT_EQ(model.draft_model, "tiny");
  EXPECT_EQ(model.max_drafts, 3);
  EXPECT_EQ(model.drafters.size(), 2u);
  EXPECT_FALSE(model.by_cost);
  const auto head = config(R"({"method": "eagle3", "model": "some/folder", "num_speculative_tokens": 3})");
  EXPECT_EQ(head.draft_head, "some/folder");
  EXPECT_EQ(head.max_drafts, 3);
  EXPECT_FALSE(head.by_cost);
  const auto both = config(
      R"({"method": "ngram", "num_speculative_tokens": 7, "prompt_lookup_min": 2, "prompt_lookup_max": 4})");
  EXPECT_EQ(both.max_drafts, 7);
  EXPECT_EQ(both.ngram.least, 2);
  EXPECT_EQ(both.ngram.most, 4);
  EXPECT_FALSE(both.by_cost);
  EXPECT_EQ(config(R"({"method": "ngram", "prompt_lookup_max": 4})").ngram.least, 4);
  EXPECT_EQ(config(R"({"method": "ngram"})").ngram.most, 5);
  EXPECT_EQ(config(R"({"method": "suffix", "num_speculative_tokens": 32})").max_drafts, 32);
}

TEST(SpeculativeConfig, AcceptsThatDraftsRunOnOneGpuAndNoOtherNumber) {
  EXPECT_EQ(config(R"({"method": "eagle3", "model": "x", "draft_tensor_parallel_size": 1})").draft_head, "x");
  EXPECT_EQ(
      config_refusal(R"({"method": "eagle3", "model": "x", "draft_tensor_parallel_size": 2})"),
      "--speculative-config.draft_tensor_parallel_size must be 1, not 2: drafts are computed on one GPU");
}

TEST(SpeculativeConfig, SaysHowManyTokensThereMayBeForOnePlace) {
  EXPECT_EQ(config(R"({"method": "suffix"})").topk, 1);
  EXPECT_EQ(config(R"({"method": "suffix", "topk": 3})").topk, 3);
  EXPECT_EQ(config(R"({"method": "eagle3", "model": "x", "topk": 8})").topk, 8);
  EXPECT_EQ(config(R"({"method": "draft_model", "model": "x", "topk": 2})").topk, 2);
  EXPECT_EQ(speculate("suffix").topk, 1);
  EXPECT_GT(speculate("auto").topk, 1);
}

TEST(SpeculativeConfig, WhatCannotBeIsRefusedByName) {
  EXPECT_THAT(config_refusal(R"({"method": "suffix", "topk": 9})"),
              HasSubstr("topk must be a whole number from 1 to 8, not 9"));
  EXPECT_THAT(config_refusal(R"({"method": "ngram", "topk": 2})"), HasSubstr("topk"));
  EXPECT_THAT(config_refusal(R"({"method": "medusa", "model": "x"})"),
              HasSubstr("--speculative-config.method must be ngram, suffix, eagle3 or draft_model"));
  EXPECT_THAT(config_refusal(R"({"method": "eagle3"})"), HasSubstr("--speculative-config.model"));
  EXPECT_THAT(config_refusal(R"({"method": "draft_model", "model": ""})"),
              HasSubstr("--speculative-config.model"));
  EXPECT_THAT(config_refusal(R"({"method": "eagle3", "model": "x", "num_speculative_tokens": 17})"),
              HasSubstr("num_speculative_tokens must be a whole number from 1 to 16, not 17"));
  EXPECT_THAT(config_refusal(R"({"num_speculative_tokens": 3})"), HasSubstr("--speculative-config.method"));
  EXPECT_THAT(config_refusal(R"({"method": "ngram", "prompt_lookup_min": 0})"),
              HasSubstr("prompt_lookup_min must be a whole number from 1 to 64, not 0"));
  EXPECT_THAT(config_refusal(R"({"method": "ngram", "prompt_lookup_min": 5, "prompt_lookup_max": 3})"),
              HasSubstr("prompt_lookup_min must be at most prompt_lookup_max, 3"));
  EXPECT_THAT(config_refusal(R"({"method": "suffix", "num_speculative_tokens": 33})"),
              HasSubstr("num_speculative_tokens must be a whole number from 1 to 32, not 33"));
  EXPECT_THAT(config_refusal(R"({"method": "ngram", "disable_by_batch_size": 4})"),
              HasSubstr("disable_by_batch_size"));
  for (const char* method : {"suffix", "ngram", "eagle3"})
    EXPECT_THAT(
        config_refusal(
            fmt::format(R"({{"method": "{}", "speculative_token_tree": "[(0,), (0, 0)]"}})", method).c_str()),
        testing::AllOf(HasSubstr("--speculative-config.speculative_token_tree is not supported"),
                       HasSubstr("\"topk\""), HasSubstr("\"num_speculative_tokens\"")));
  EXPECT_THAT(config_refusal("ngram"), HasSubstr("--speculative-config"));
  Settings two;
  two.speculate = "auto";
  two.speculative_config = R"({"method": "ngram"})";
  EXPECT_THAT(error_of([&] { read_speculation(two); }), HasSubstr("exclude each other"));
}

}  // namespace
}  // namespace nibble
