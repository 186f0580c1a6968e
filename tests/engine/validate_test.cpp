// Tests that a request that cannot be run is refused with one line that says what is wrong and what is
// accepted.
#include "engine/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace nibble {
namespace {

using testing::HasSubstr;

constexpr float kNan{std::numeric_limits<float>::quiet_NaN()};
constexpr float kInfinity{std::numeric_limits<float>::infinity()};

RequestLimits limits() {
  return {.vocab = 1000,
          .max_context = 256,
          .scheduler = {.max_batch_tokens = 64, .max_sequences = 4, .num_pages = 16, .window = 128}};
}
GenerationRequest request(size_t num_prompt_tokens = 10) {
  return {.prompt = std::vector<TokenId>(num_prompt_tokens, 1)};
}

TEST(FindFault, FindsNoneInWhatCanBeRun) {
  EXPECT_FALSE(find_fault(request(), limits()));
  GenerationRequest edges = request(255);
  edges.prompt[0] = 0;
  edges.prompt[1] = 999;
  edges.sample = {.temperature = 100,
                  .top_k = 1 << 30,
                  .top_p = 1e-30f,
                  .min_p = 1,
                  .repetition_penalty = 0.01f,
                  .presence_penalty = -2,
                  .frequency_penalty = 2,
                  .logit_bias = {{999, -100}},
                  .seed = ~uint64_t{0},
                  .num_logprobs = 20};
  edges.stop = {.max_tokens = 1 << 30,
                .tokens = {0, 999},
                .strings = std::vector<std::string>(kMaxStopStrings, "\U0001F600")};
  EXPECT_EQ(find_fault(edges, limits()), std::nullopt);
}

TEST(FindFault, SaysWhatIsWrongAndWhatIsAccepted) {
  struct Case {
    std::function<void(GenerationRequest&)> spoil;
    const char* message;
  };
  const Case cases[] = {
      {[](GenerationRequest& r) { r.prompt.clear(); }, "the prompt is empty"},
      {[](GenerationRequest& r) { r.prompt.resize(256, 1); },
       "the prompt has 256 tokens, but prompt and answer together may "
       "have only 256: shorten the prompt"},
      {[](GenerationRequest& r) { r.prompt[3] = 1000; },
       "token 3 of the prompt is 1000, which is not in the vocabulary (ids 0 to 999)"},
      {[](GenerationRequest& r) { r.prompt[0] = -1; }, "token 0 of the prompt is -1"},
      {[](GenerationRequest& r) { r.sample.temperature = -1; }, "temperature is -1: it must be 0 or more"},
      {[](GenerationRequest& r) { r.sample.temperature = kNan; }, "temperature is nan"},
      {[](GenerationRequest& r) { r.sample.temperature = kInfinity; }, "temperature is inf"},
      {[](GenerationRequest& r) { r.sample.top_k = -1; }, "top_k is -1"},
      {[](GenerationRequest& r) { r.sample.top_p = 0; }, "top_p is 0: it must be above 0 and at most 1"},
      {[](GenerationRequest& r) { r.sample.top_p = 1.5f; }, "top_p is 1.5"},
      {[](GenerationRequest& r) { r.sample.top_p = kNan; }, "top_p is nan"},
      {[](GenerationRequest& r) { r.sample.min_p = -0.1f; }, "min_p is -0.1"},
      {[](GenerationRequest& r) { r.sample.min_p = 1.1f; }, "min_p is 1.1: it must be between 0 and 1"},
      {[](GenerationRequest& r) { r.sample.min_p = kNan; }, "min_p is nan"},
      {[](GenerationRequest& r) { r.sample.repetition_penalty = 0; }, "repetition_penalty is 0"},
      {[](GenerationRequest& r) { r.sample.repetition_penalty = kNan; }, "repetition_penalty is nan"},
      {[](GenerationRequest& r) { r.sample.repetition_penalty = kInfinity; }, "repetition_penalty is inf"},
      {[](GenerationRequest& r) { r.sample.presence_penalty = 2.5f; },
       "presence_penalty is 2.5: it must be between -2 and 2"},
      {[](GenerationRequest& r) { r.sample.presence_penalty = kNan; }, "presence_penalty is nan"},
      {[](GenerationRequest& r) { r.sample.frequency_penalty = -3; }, "frequency_penalty is -3"},
      {[](GenerationRequest& r) {
         r.sample.logit_bias = {{1000, 1}};
       },
       "logit_bias names token 1000"},
      {[](GenerationRequest& r) {
         r.sample.logit_bias = {{5, 101}};
       },
       "logit_bias of token 5 is 101: it must be between -100"},
      {[](GenerationRequest& r) {
         r.sample.logit_bias = {{5, kNan}};
       },
       "logit_bias of token 5 is nan"},
      {[](GenerationRequest& r) { r.sample.num_logprobs = 21; }, "num_logprobs is 21: it must be at most 20"},
      {[](GenerationRequest& r) { r.sample.num_logprobs = -2; }, "num_logprobs is -2"},
      {[](GenerationRequest& r) { r.stop.max_tokens = -1; }, "max_tokens is -1"},
      {[](GenerationRequest& r) { r.stop.tokens = {1000}; }, "stop token 1000 is not in the vocabulary"},
      {[](GenerationRequest& r) {
         r.stop.strings = {"a", ""};
       },
       "stop string 1 is empty"},
      {[](GenerationRequest& r) { r.stop.strings = {"\xC3"}; }, "stop string 0 is not valid UTF-8"},
      {[](GenerationRequest& r) { r.prompt_logprobs = 21; }, "prompt_logprobs is 21: it must be at most 20"},
      {[](GenerationRequest& r) { r.stop.min_tokens = -1; }, "min_tokens is -1"},
      {[](GenerationRequest& r) { r.stop.max_tokens = 5, r.stop.min_tokens = 6; }, "at most max_tokens"},
      {[](GenerationRequest& r) {
         r.bans.runs = {{1}, {}};
       },
       "a banned token sequence is empty"},
      {[](GenerationRequest& r) { r.bans.runs = {{1000}}; }, "a banned token sequence has token 1000"},
      {[](GenerationRequest& r) { r.bans.allowed = std::make_shared<std::vector<TokenId>>(); },
       "no token can be chosen"},
      {[](GenerationRequest& r) { r.bans.allowed = std::make_shared<std::vector<TokenId>>(1, -1); },
       "allowed token -1 is not in the vocabulary"},
      {[](GenerationRequest& r) {
         r.bans.allowed = std::make_shared<std::vector<TokenId>>(std::vector{1, 2});
         r.bans.runs = {{1}};
         r.stop = {.min_tokens = 1, .tokens = {2}};
       },
       "all 2 allowed tokens are banned"},
      {[](GenerationRequest& r) { r.stop.strings.resize(17, "a"); }, "17 stop strings: at most 16"},
  };
  for (const Case& spoiled : cases) {
    GenerationRequest bad = request();
    spoiled.spoil(bad);
    const std::optional<std::string> fault = find_fault(bad, limits());
    ASSERT_TRUE(fault) << "not found: " << spoiled.message;
    EXPECT_THAT(*fault, HasSubstr(spoiled.message));
    EXPECT_EQ(fault->find('\n'), std::string::npos) << *fault;
  }
}

TEST(FindFault, RefusesWhatNeedsMorePagesThanTheCacheHas) {
  RequestLimits small = limits();
  small.scheduler.num_pages = 8;  // 4 pages (128 positions) for full layers, 4 for sliding layers
  GenerationRequest fits = request(100);
  fits.stop.max_tokens = 29;  // 129 tokens fit into 128 positions, because the last token is never fed back
  EXPECT_FALSE(find_fault(fits, small));
  fits.stop.max_tokens = 30;
  EXPECT_THAT(find_fault(fits, small).value(), HasSubstr("need 10 pages of the KV cache, which has 8"));
  EXPECT_THAT(find_fault(request(129), small).value(), HasSubstr("need 10 pages"));

  // For contexts beyond the window, the sliding layers hold 5 pages, wherever the window begins.
  RequestLimits large = limits();
  large.scheduler.num_pages = 11;  // leaves 6 pages for full layers: 192 positions
  fits.stop.max_tokens = 93;
  EXPECT_FALSE(find_fault(fits, large));
  fits.stop.max_tokens = 94;
  EXPECT_THAT(find_fault(fits, large).value(), HasSubstr("need 12 pages of the KV cache, which has 11"));
}

TEST(MaxOutputTokens, AreWhatTheContextLeavesAndWithoutAWishWhatTheCacheHolds) {
  GenerationRequest asked = request(100);
  EXPECT_EQ(max_output_tokens(asked, limits()), 156);
  asked.stop.max_tokens = 20;
  EXPECT_EQ(max_output_tokens(asked, limits()), 20);
  asked.stop.max_tokens = 1000;
  EXPECT_EQ(max_output_tokens(asked, limits()), 156);

  RequestLimits small = limits();
  small.scheduler.num_pages = 8;
  asked.stop.max_tokens = 0;
  EXPECT_EQ(max_output_tokens(asked, small), 29);
  EXPECT_FALSE(find_fault(asked, small));
}

}  // namespace
}  // namespace nibble
