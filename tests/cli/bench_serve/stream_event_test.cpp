#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/bench_serve/stream_event.h"

namespace nibble::cli {
namespace {

using testing::ElementsAre;

TEST(StreamEvent, AnEventHasTextWhereverItMayStand) {
  for (const char* data : {R"({"choices":[{"text":"a"}]})", R"({"choices":[{"delta":{"content":"a"}}]})",
                           R"({"choices":[{"delta":{"reasoning_content":"a"}}]})",
                           R"({"choices":[{"delta":{"reasoning":"a"}}]})",
                           R"({"choices":[{"delta":{"tool_calls":[{"index":0}]}}]})"})
    EXPECT_TRUE(read_event(data).has_text) << data;
  for (const char* data :
       {R"({"choices":[{"text":""}]})", R"({"choices":[{"delta":{"role":"assistant","content":""}}]})",
        R"({"choices":[]})", R"({"choices":[{"delta":{"content":null}}]})", "[DONE]", "{}"})
    EXPECT_FALSE(read_event(data).has_text) << data;
}

TEST(StreamEvent, AnEventHasUsageAndErrors) {
  const StreamEvent usage = read_event(
      R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4}}})");
  EXPECT_EQ(usage.num_prompt_tokens, 7);
  EXPECT_EQ(usage.num_output_tokens, 5);
  EXPECT_EQ(usage.num_cached_tokens, 4);
  EXPECT_TRUE(read_event("[DONE]").is_done);
  EXPECT_EQ(read_event(R"({"error":{"message":"no"}})").error, "no");
  EXPECT_EQ(read_event(R"({"error":"no"})").error, "no");
  for (const char* data : {"", "[1]", "{", R"({"error":{}})"}) EXPECT_NE(read_event(data).error, "") << data;
}

TEST(StreamEvent, HasTheContentOfAChatAndTheIdsOfACompletion) {
  EXPECT_EQ(read_event(R"({"choices":[{"delta":{"content":"ab","reasoning":"c"}}]})").content, "ab");
  EXPECT_EQ(read_event(R"({"choices":[{"delta":{"content":"ab","reasoning":"c"}}]})").reasoning, "c");
  EXPECT_EQ(read_event(R"({"choices":[{"delta":{"reasoning_content":"c","reasoning":"c"}}]})").reasoning,
            "c");
  EXPECT_EQ(read_event(R"({"choices":[{"delta":{},"finish_reason":"length"}]})").finish_reason, "length");
  EXPECT_EQ(read_event(R"({"choices":[{"delta":{},"finish_reason":null}]})").finish_reason, "");
  EXPECT_THAT(read_event(R"({"choices":[{"text":"a","token_ids":[7,9,"x"]}]})").tokens, ElementsAre(7, 9));
}

TimedAnswer answer_of(const std::vector<const char*>& stream) {
  TimedAnswer answer;
  double now = 0;
  for (const char* data : stream) add_event(read_event(data), ++now, answer);
  return answer;
}

TEST(StreamEvent, ATokenWithoutTextIsSeenByItsUsage) {
  const TimedAnswer answer = answer_of(
      {R"({"choices":[{"delta":{"role":"assistant","content":""}}],"usage":{"completion_tokens":0}})",
       R"({"choices":[{"text":""}],"usage":{"completion_tokens":1}})",   // the first token has no text yet
       R"({"choices":[{"text":"a"}],"usage":{"completion_tokens":2}})",  //
       R"({"choices":[{"text":""}],"usage":{"completion_tokens":2}})",   // no new token
       R"({"choices":[{"text":"","finish_reason":"length"}],"usage":{"completion_tokens":3}})",
       R"({"choices":[],"usage":{"completion_tokens":3}})"});
  EXPECT_THAT(answer.events, ElementsAre(2, 3, 5));
  EXPECT_EQ(answer.num_output_tokens, 3);
  EXPECT_EQ(answer.first_response, 1);  // an event with only the role is a response, but no token
}

TEST(StreamEvent, AnEventCountsItsTokens) {
  const TimedAnswer answer = answer_of({R"({"choices":[{"text":"a"}],"usage":{"completion_tokens":1}})",
                                        R"({"choices":[{"text":"bcd"}],"usage":{"completion_tokens":4}})",
                                        R"({"choices":[{"text":"e"}],"usage":{"completion_tokens":4}})"});
  EXPECT_THAT(answer.event_tokens, ElementsAre(1, 3, 0));  // "e" is of a token already counted
}

TEST(StreamEvent, TokensOfEarlierEventsAreCountedOnce) {
  const TimedAnswer answer = answer_of({R"({"choices":[{"text":"a"}]})", R"({"choices":[{"text":"b"}]})",
                                        R"({"choices":[{"text":"cdefg"}],"usage":{"completion_tokens":7}})"});
  EXPECT_THAT(answer.event_tokens, ElementsAre(1, 1, 5));
}

TEST(StreamEvent, TheEndOfAStreamIsNoResponse) { EXPECT_FALSE(answer_of({"[DONE]"}).first_response); }

TEST(StreamEvent, AServerThatReportsUsageAtTheEndIsTimedByText) {
  const TimedAnswer answer = answer_of(
      {R"({"choices":[{"text":"a"}]})", R"({"choices":[{"text":""}]})", R"({"choices":[{"text":"b"}]})",
       R"({"choices":[{"text":"","finish_reason":"stop"}],"usage":{"completion_tokens":2}})",
       R"({"choices":[],"usage":{"completion_tokens":2}})"});
  EXPECT_THAT(answer.events, ElementsAre(1, 3));
  EXPECT_THAT(answer.event_tokens, ElementsAre(1, 1));
  // Only the usage after the end of the stream counts the tokens, so no token has a time.
  EXPECT_THAT(answer_of({R"({"choices":[],"usage":{"completion_tokens":2}})"}).events, ElementsAre());
}

}  // namespace
}  // namespace nibble::cli
