#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "cli/bench_serve/latency.h"
#include "tests/cli/bench_serve/some_answers.h"

namespace nibble::cli {
namespace {

TEST(Latency, PercentilesAreThoseOfNumpy) {
  EXPECT_FALSE(percentiles_of({}));
  EXPECT_EQ(percentiles_of({7})->p99, 7);
  // numpy.percentile([1, 2, 4, 8, 16], [50, 90, 95, 99]) = 4, 12.8, 14.4, 15.68
  const Percentiles some = *percentiles_of({16, 1, 8, 2, 4});
  EXPECT_DOUBLE_EQ(some.mean, 6.2);
  EXPECT_DOUBLE_EQ(some.p50, 4);
  EXPECT_DOUBLE_EQ(some.p90, 12.8);
  EXPECT_DOUBLE_EQ(some.p95, 14.4);
  EXPECT_DOUBLE_EQ(some.p99, 15.68);
  EXPECT_EQ(some.most, 16);
}

TEST(Latency, ALoadComesToThroughputAndTimes) {
  const LoadSummary summary = summarise(some_answers());
  EXPECT_EQ(summary.num_requests, 4);
  EXPECT_EQ(summary.num_failed, 1);
  EXPECT_EQ(summary.seconds, 10);
  EXPECT_EQ(summary.num_prompt_tokens, 150);
  EXPECT_EQ(summary.num_output_tokens, 7);
  EXPECT_EQ(summary.num_cached_tokens, 64);
  EXPECT_EQ(summary.num_uncounted, 1);
  EXPECT_EQ(summary.max_open, 3);  // the fourth request is sent when the second one ends
  EXPECT_DOUBLE_EQ(summary.requests_per_second(), 0.3);
  EXPECT_DOUBLE_EQ(summary.prompt_tokens_per_second(), 15);
  EXPECT_DOUBLE_EQ(summary.output_tokens_per_second(), 0.7);
  EXPECT_DOUBLE_EQ(summary.tokens_per_second(), 15.7);
  EXPECT_DOUBLE_EQ(summary.ttft->mean, (0.5 + 1 + 0.25) / 3);
  EXPECT_DOUBLE_EQ(summary.itl->mean, (0.25 + 0.75 + 1 + 0.75) / 4);
  EXPECT_DOUBLE_EQ(summary.tpot->mean, ((1.5 - 0.5) / 2 + (2 - 1) / 1.0 + (1 - 0.25) / 1) / 3);
  EXPECT_DOUBLE_EQ(summary.e2e->mean, (1.5 + 2 + 1) / 3);
  ASSERT_EQ(summary.errors.size(), 1u);
  EXPECT_EQ(summary.errors.at("HTTP 429").count, 1);
  EXPECT_EQ(summary.errors.at("HTTP 429").example, "full");
}

TEST(Latency, PromptProcessingIsTheTimeToTheFirstEventLessTheLatency) {
  const LoadSummary summary = summarise(some_answers(), 0.125);
  EXPECT_DOUBLE_EQ(summary.ttfr->mean, (0.25 + 1 + 0.125) / 3);
  EXPECT_DOUBLE_EQ(summary.est_ppt->mean, (0.125 + 0.875 + 0) / 3);
  // 100 prompt tokens less 64 cached ones in 0.125 s, and 50 prompt tokens in 0.875 s. The third answer did
  // not report its prompt's tokens.
  EXPECT_DOUBLE_EQ(summary.prefill_speed->mean, (36 / 0.125 + 50 / 0.875) / 2);
}

TEST(Latency, PromptProcessingIsNeverNegativeAndUnknownWithoutALatency) {
  const LoadSummary slow = summarise(some_answers(), 2);
  EXPECT_EQ(slow.est_ppt->most, 0);
  EXPECT_FALSE(slow.prefill_speed);
  const LoadSummary unknown = summarise(some_answers());
  EXPECT_TRUE(unknown.ttfr);
  EXPECT_FALSE(unknown.est_ppt || unknown.prefill_speed);
}

TEST(Latency, AnAnswerWithoutTextHasAnEndAndNoFirstToken) {
  std::vector<TimedAnswer> answers(1);
  answers[0].ended = 2;
  answers[0].num_output_tokens = 4;  // more than were streamed, because control tokens count too
  const LoadSummary summary = summarise(answers);
  EXPECT_FALSE(summary.ttft || summary.itl || summary.tpot);
  EXPECT_EQ(summary.e2e->p50, 2);
  EXPECT_EQ(summary.num_output_tokens, 4);
}

TEST(Latency, InteractivityIsOneOverTheMedianTimePerToken) {
  // TPOT of the three answers: (1.5 - 0.5) / 2, (2 - 1) / 1, (1 - 0.25) / 1; the median is 0.75 s.
  EXPECT_DOUBLE_EQ(*summarise(some_answers()).interactivity(), 1 / 0.75);
  std::vector<TimedAnswer> answers(1);
  answers[0] = some_answers()[0];
  answers[0].num_output_tokens = 1;
  EXPECT_FALSE(summarise(answers).interactivity());  // an answer of one token has no TPOT
}

}  // namespace
}  // namespace nibble::cli
