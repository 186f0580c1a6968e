#include "server/api/reply.h"
#include "core/text/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/server/tiny.h"

namespace nibble::server {
namespace {

const ReplyHead kHead{"chatcmpl-1", 1234, "tiny", "fp_1"};

TEST(ApiReply, AnEventIsOneLineOfJsonAndABlankLine) {
  EXPECT_EQ(sse_event({{"content", "a\nb\r\n\nÄ"}}), "data: {\"content\":\"a\\nb\\r\\n\\nÄ\"}\n\n");
}

TEST(ApiReply, AParameterIsRepeatedWithTheDigitsThatWereSent) {
  for (const char* text : {"0.7", "0.1", "1.0", "0.0", "-1.5", "1e-05"})
    EXPECT_EQ(print(Json(decimal(std::stof(text)))), text);
}

TEST(ApiReply, HalfACharacterDoesNotBreakTheLine) {
  EXPECT_EQ(print({{"token", "\xC3"}}), "{\"token\":\"\xEF\xBF\xBD\"}");
}

TEST(ApiReply, AChunkHasTheShapeOfOpenAis) {
  EXPECT_EQ(print(chat_chunk(kHead, 1, {{"content", "x"}}, nullptr, std::nullopt)),
            R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1234,"model":"tiny",)"
            R"("service_tier":"default","system_fingerprint":"fp_1",)"
            R"("choices":[{"index":1,"delta":{"content":"x"},"logprobs":null,"finish_reason":null}]})");
  EXPECT_EQ(
      print(usage_chunk(kHead, "chat.completion.chunk", {3, 4, 2, 1})),
      R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1234,"model":"tiny",)"
      R"("service_tier":"default","system_fingerprint":"fp_1",)"
      R"("choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,)"
      R"("prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":1}}})");
}

TEST(ApiReply, ChunksHaveTheRequestedUsage) {
  const auto usage_in = [](const ChunkUsage& usage) {
    Json chunk = Json::object();
    usage.add_to(chunk);
    return chunk;
  };
  EXPECT_FALSE(usage_in({}).contains("usage"));
  EXPECT_TRUE(usage_in({.is_included = true}).at("usage").is_null());
  const Json so_far =
      usage_in({.is_included = true, .is_continuous = true, .so_far = {3, 4, 2, 1}}).at("usage");
  EXPECT_EQ(so_far["total_tokens"], 7);
}

TEST(ApiReply, AnAnswerOfCallsAloneHasNoContent) {
  ChatAnswer answer(tiny(), {{"f"}}, {});
  for (const TokenId token : tiny().encode("<|channel|>commentary to=functions.f<|message|>{\"a\":1}<|call|>",
                                           SpecialTokens::kRecognise))
    answer.push({.token = token});
  answer.finish();
  const Json choice = chat_choice(0, answer, "tool_calls", nullptr);
  EXPECT_TRUE(choice["message"]["content"].is_null());
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["arguments"], "{\"a\":1}");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["type"], "function");
  EXPECT_FALSE(choice["message"].contains("reasoning"));
}

TEST(ApiReply, LogProbabilitiesOfTokensAreFiniteAndHaveTheirBytes) {
  const TokenId a = tiny().encode("a", SpecialTokens::kOrdinary)[0];
  const SampledToken token{a, -0.5f, {{a, -0.5f}, {a, -std::numeric_limits<float>::infinity()}}};
  const Json row = chat_logprobs({token}, tiny())["content"][0];
  EXPECT_EQ(row["token"], "a");
  EXPECT_EQ(row["bytes"], Json::array({97}));
  EXPECT_EQ(row["logprob"], -0.5);
  EXPECT_EQ(row["top_logprobs"][1]["logprob"], -9999.0);
}

TEST(ApiReply, OffsetsOfCompletionTokensCountCharacters) {
  std::vector<SampledToken> tokens;
  for (const char* text : {"a", "bc", "d"})
    for (const TokenId id : tiny().encode(text, SpecialTokens::kOrdinary)) tokens.push_back({.token = id});
  CompletionLogprobs logprobs(tiny(), 5);
  logprobs.add(tokens);
  const Json lists = logprobs.take();
  EXPECT_EQ(lists["text_offset"][0], 5);
  EXPECT_EQ(lists["text_offset"][1], 6);
  EXPECT_EQ(lists["tokens"].size(), tokens.size());
  EXPECT_EQ(count_characters("aÄ🙂"), 3);
}

TEST(ApiReply, APromptsFirstTokenHasNoLogProbability) {
  const TokenId a = tiny().encode("a", SpecialTokens::kOrdinary)[0],
                b = tiny().encode("b", SpecialTokens::kOrdinary)[0];
  const std::vector<SampledToken> rest{{b, -2, {{a, -1}, {b, -2}}}, {a, -9, {{b, -1}, {b, -3}}}};
  CompletionLogprobs echoed(tiny(), 0);
  echoed.add_first(a);
  echoed.add(rest);
  EXPECT_EQ(print(echoed.take()),
            R"({"tokens":["a","b","a"],"token_logprobs":[null,-2.0,-9.0],)"
            R"("top_logprobs":[null,{"a":-1.0,"b":-2.0},{"b":-1.0}],"text_offset":[0,1,2]})");
  const Json told = prompt_logprobs(rest, tiny());
  EXPECT_TRUE(told[0].is_null());
  EXPECT_EQ(told[1].size(), 2u);
  EXPECT_EQ(told[1][std::to_string(b)]["rank"], 2);
  EXPECT_EQ(told[2][std::to_string(a)]["logprob"], -9.0);
  EXPECT_TRUE(told[2][std::to_string(a)]["rank"].is_null());
}

}  // namespace
}  // namespace nibble::server
