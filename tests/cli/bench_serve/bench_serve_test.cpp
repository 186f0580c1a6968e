#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <set>

#include "cli/bench/bench.h"
#include "cli/bench_serve/client.h"
#include "cli/bench_serve/event_stream.h"
#include "cli/bench_serve/latency.h"
#include "cli/bench_serve/report.h"
#include "cli/bench_serve/workload.h"
#include "core/random.h"
#include "tests/error_of.h"

namespace nibble::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// server-sent events

TEST(EventStream, GivesTheDataOfEachEventAndNothingElse) {
  EXPECT_THAT(EventStream().push("data: {\"a\":1}\n\n"), ElementsAre("{\"a\":1}"));
  EXPECT_THAT(EventStream().push(":\n\nevent: x\nid: 3\ndata:a\ndata:  b\n\ndata\n\nevent: y\n\n"),
              ElementsAre("a\n b"));
  EXPECT_THAT(EventStream().push("data: a\r\n\r\ndata: b\r\rdata: \n\ndata: no end\n"),
              ElementsAre("a", "b", ""));
}

TEST(EventStream, DoesNotCareWhereTheBytesAreCut) {
  const std::string said = ": hi\r\n\r\ndata: one\r\n\r\ndata: tw\xC3\xB6\ndata:2\n\ndata: [DONE]\n\n";
  for (size_t first = 0; first <= said.size(); ++first) {
    for (size_t second = first; second <= said.size(); ++second) {
      EventStream stream;
      std::vector<std::string> events;
      for (const auto& part :
           {said.substr(0, first), said.substr(first, second - first), said.substr(second)})
        for (const std::string& event : stream.push(part)) events.push_back(event);
      ASSERT_THAT(events, ElementsAre("one", "tw\xC3\xB6\n2", "[DONE]")) << first << " " << second;
    }
  }
}

TEST(BenchServe, AnEventHasTextWhereverItMayStand) {
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

TEST(BenchServe, AnEventHasUsageAndErrors) {
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

// the endpoint

TEST(BenchServe, AUrlIsReadWithAndWithoutWhatMayBeLeftOut) {
  for (const char* url : {"http://127.0.0.1:8080", "http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1",
                          "http://127.0.0.1:8080/v1/"})
    EXPECT_EQ(read_endpoint(url).url(), "http://127.0.0.1:8080/v1") << url;
  EXPECT_EQ(read_endpoint("http://a.b/llm").url(), "http://a.b:80/llm/v1");
  const Endpoint v6 = read_endpoint("http://[::1]:80");
  EXPECT_EQ(v6.host, "::1");
  EXPECT_EQ(v6.url(), "http://[::1]:80/v1");
}

TEST(BenchServe, WhatIsNoUrlIsRefusedWithOneThatIs) {
  for (const char* url : {"", "127.0.0.1:8080", "https://a", "http://", "http://:80", "http://a:x",
                          "http://a:0", "http://a:65536", "http://a b", "ftp://a"})
    EXPECT_THAT(error_of([&] { read_endpoint(url); }),
                AllOf(HasSubstr(std::string("'") + url + "'"), HasSubstr("http://127.0.0.1:8080")))
        << url;
}

// lengths, prompts and arrivals

TEST(BenchServe, ALengthIsFixedUniformOrExponential) {
  EXPECT_EQ(read_length("512", "-x").draw(0.99), 512);
  const LengthDistribution uniform = read_length("10-13", "-x");
  EXPECT_EQ(uniform.draw(0), 10);
  EXPECT_EQ(uniform.draw(0.999), 13);
  const LengthDistribution exponential = read_length("exp:100", "-x");
  EXPECT_EQ(exponential.draw(0), 1);
  EXPECT_EQ(exponential.draw(0.5), 69);           // ln 2 times the mean
  EXPECT_EQ(exponential.draw(1 - 0x1p-53), 800);  // cut off at 8 times the mean
  double sum = 0;
  constexpr int kNumDraws{20000};
  for (uint64_t i = 0; i < kNumDraws; ++i) sum += exponential.draw(random_unit(5, i));
  // The mean of the draws has a standard deviation of 100 / sqrt(20000) = 0.7; the cut-off lowers it by 100
  // e^-8 = 0.03.
  EXPECT_NEAR(sum / kNumDraws, 100, 3);
}

TEST(BenchServe, ABadLengthIsAnsweredWithWhatIsAccepted) {
  for (const char* text :
       {"", "0", "-5", "5-", "-", "7-6", "1048577", "exp:", "exp:0", "exp:1-2", "5x", "1e3"})
    EXPECT_THAT(error_of([&] { read_length(text, "--prompt-tokens"); }),
                AllOf(HasSubstr(std::string("--prompt-tokens '") + text + "'"), HasSubstr("exp:512")))
        << text;
}

Workload workload_of(BenchApi api) {
  return {.api = api,
          .model = "m",
          .prompt_tokens = read_length("5-20", ""),
          .output_tokens = read_length("3", ""),
          .num_prefix_tokens = 4,
          .num_prefixes = 3,
          .seed = 1};
}

TEST(BenchServe, PromptsShareTheirPrefixesAndNothingElse) {
  const Workload workload = workload_of(BenchApi::kCompletions);
  std::set<std::vector<int>> prefixes, own;
  std::set<size_t> lengths;
  for (uint64_t i = 0; i < 300; ++i) {
    const std::vector<int> ids = request_body(workload, i)["prompt"];
    ASSERT_TRUE(std::all_of(ids.begin(), ids.end(), [](int id) { return id >= 0 && id < 1000; }));
    lengths.insert(ids.size());
    prefixes.emplace(ids.begin(), ids.begin() + 4);
    own.emplace(ids.begin() + 4, ids.end());
  }
  EXPECT_EQ(prefixes.size(), 3u);
  EXPECT_EQ(own.size(), 300u);
  EXPECT_EQ(*lengths.begin(), 4u + 5);
  EXPECT_EQ(*lengths.rbegin(), 4u + 20);
}

TEST(BenchServe, ARequestFollowsFromTheSeed) {
  Workload workload = workload_of(BenchApi::kChat);
  const auto body = request_body(workload, 7);
  EXPECT_EQ(body, request_body(workload, 7));
  EXPECT_NE(body, request_body(workload, 8));
  workload.seed = 2;
  EXPECT_NE(body, request_body(workload, 7));
  const std::string text = body["messages"][0]["content"];
  EXPECT_THAT(text, Not(HasSubstr("  ")));
  EXPECT_EQ(body["max_tokens"], 3);
  EXPECT_EQ(body["stream"], true);
  EXPECT_EQ(body["stream_options"]["include_usage"], true);
}

TEST(RequestBody, ExtraFieldsAreAddedOrReplaceItsOwn) {
  Workload workload = workload_of(BenchApi::kCompletions);
  auto expected = request_body(workload, 3);
  workload.extra_body = {{"regex", "[a-z]+"}, {"ignore_eos", false}};
  expected["regex"] = "[a-z]+";
  expected["ignore_eos"] = false;
  EXPECT_EQ(request_body(workload, 3), expected);
}

TEST(BenchServe, ArrivalsAreAPoissonProcess) {
  constexpr int kCount{10000};
  const std::vector<double> times = poisson_arrivals(4, kCount, 3);
  ASSERT_EQ(times.size(), size_t{kCount});
  EXPECT_EQ(times[0], 0);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  // Gaps have a mean and standard deviation of 1/4, so the mean of 10^4 gaps deviates by a hundredth of that.
  EXPECT_NEAR(times.back() / (kCount - 1), 0.25, 5 * 0.0025);
  int num_long = 0;
  for (size_t i = 1; i < times.size(); ++i) num_long += times[i] - times[i - 1] > 0.25;
  // A share of exp(-1) is longer than the mean; binomial with a standard deviation of 48.
  EXPECT_NEAR(num_long, kCount * std::exp(-1.0), 5 * 48);
}

// statistics

TEST(BenchServe, PercentilesAreThoseOfNumpy) {
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

// Two overlapping answers of 3 and 2 tokens, one that failed, and one without usage.
std::vector<TimedAnswer> some_answers() {
  std::vector<TimedAnswer> answers(4);
  answers[0] = {.sent = 10,
                .ended = 11.5,
                .texts = {10.5, 10.75, 11.5},
                .num_prompt_tokens = 100,
                .num_output_tokens = 3,
                .num_cached_tokens = 64,
                .error = {},
                .example = {}};
  answers[1] = {.sent = 11,
                .ended = 13,
                .texts = {12, 13},
                .num_prompt_tokens = 50,
                .num_output_tokens = 2,
                .num_cached_tokens = 0,
                .error = {},
                .example = {}};
  answers[2] = {.sent = 10.25,
                .ended = 20,
                .texts = {15},
                .num_prompt_tokens = {},
                .num_output_tokens = {},
                .num_cached_tokens = {},
                .error = "HTTP 429",
                .example = "full"};
  answers[3] = {.sent = 13,
                .ended = 14,
                .texts = {13.25, 14},
                .num_prompt_tokens = {},
                .num_output_tokens = {},
                .num_cached_tokens = {},
                .error = {},
                .example = {}};
  return answers;
}

TEST(BenchServe, ALoadComesToThroughputAndTimes) {
  const LoadSummary summary = summarise(some_answers());
  EXPECT_EQ(summary.num_requests, 4);
  EXPECT_EQ(summary.num_failed, 1);
  EXPECT_EQ(summary.seconds, 10);
  EXPECT_EQ(summary.num_prompt_tokens, 150);
  EXPECT_EQ(summary.num_output_tokens, 7);
  EXPECT_EQ(summary.num_cached_tokens, 64);
  EXPECT_EQ(summary.num_uncounted, 1);
  EXPECT_EQ(summary.max_open, 3);  // the fourth is sent when the second ends
  EXPECT_DOUBLE_EQ(summary.requests_per_second(), 0.3);
  EXPECT_DOUBLE_EQ(summary.prompt_tokens_per_second(), 15);
  EXPECT_DOUBLE_EQ(summary.output_tokens_per_second(), 0.7);
  EXPECT_DOUBLE_EQ(summary.ttft->mean, (0.5 + 1 + 0.25) / 3);
  EXPECT_DOUBLE_EQ(summary.itl->mean, (0.25 + 0.75 + 1 + 0.75) / 4);
  EXPECT_DOUBLE_EQ(summary.tpot->mean, ((1.5 - 0.5) / 2 + (2 - 1) / 1.0 + (1 - 0.25) / 1) / 3);
  EXPECT_DOUBLE_EQ(summary.e2e->mean, (1.5 + 2 + 1) / 3);
  ASSERT_EQ(summary.errors.size(), 1u);
  EXPECT_EQ(summary.errors.at("HTTP 429").count, 1);
  EXPECT_EQ(summary.errors.at("HTTP 429").example, "full");
}

TEST(BenchServe, AnAnswerWithoutTextHasAnEndAndNoFirstToken) {
  std::vector<TimedAnswer> answers(1);
  answers[0].ended = 2;
  answers[0].num_output_tokens = 4;  // more than were streamed: control tokens count
  const LoadSummary summary = summarise(answers);
  EXPECT_FALSE(summary.ttft || summary.itl || summary.tpot);
  EXPECT_EQ(summary.e2e->p50, 2);
  EXPECT_EQ(summary.num_output_tokens, 4);
}

TEST(BenchServe, WhereAllFailNothingIsMadeUp) {
  std::vector<TimedAnswer> answers(2);
  for (TimedAnswer& answer : answers) answer = some_answers()[2];
  const BenchServeResult result{{.num_clients = 2}, summarise(answers)};
  EXPECT_FALSE(result.summary.ttft || result.summary.e2e);
  EXPECT_EQ(result.summary.requests_per_second(), 0);
  EXPECT_THAT(serve_markdown_row(result), HasSubstr("2 clients"));
}

// reports

TEST(BenchServe, TheReportHasFiguresAndErrorsByKind) {
  const BenchServeSetup setup{.record = {.date = "2026-11-22T02:36:02Z",
                                         .command_line = "nibble bench serve URL",
                                         .machine = describe_machine(std::nullopt),
                                         .kernels = {},
                                         .num_warmups = 2},
                              .url = "URL/v1",
                              .workload = workload_of(BenchApi::kChat),
                              .prompt_tokens = "5-20",
                              .output_tokens = "3"};
  const std::vector<BenchServeResult> results{{{.rate = 2.5}, summarise(some_answers())}};
  const std::string header = serve_markdown_header(), row = serve_markdown_row(results[0]);
  EXPECT_EQ(std::count(header.begin(), header.end(), '|'), 2 * std::count(row.begin(), row.end(), '|'));
  EXPECT_THAT(row, AllOf(HasSubstr("2.5 /s"), HasSubstr("500.00 /")));
  EXPECT_THAT(serve_markdown_footer(setup, results),
              AllOf(HasSubstr("`nibble bench serve URL`"), HasSubstr("commit "), HasSubstr("seed 1"),
                    HasSubstr("3 shared prefixes of 4"), HasSubstr("1 failed: HTTP 429, as 'full'"),
                    HasSubstr("1 answers did not tell their usage")));
  const auto json = serve_json(setup, results);
  const auto& load = json["loads"][0];
  EXPECT_EQ(json["date"], "2026-11-22T02:36:02Z");
  EXPECT_EQ(json["num_warmups"], 2);
  EXPECT_TRUE(json["kernels"].is_null());  // kernels are those of the server, which the record does not know
  EXPECT_EQ(json["api"], "chat");
  EXPECT_TRUE(load["num_clients"].is_null());
  EXPECT_EQ(load["rate"], 2.5);
  EXPECT_EQ(load["num_output_tokens"], 7);
  EXPECT_DOUBLE_EQ(load["ttft_seconds"]["p50"], 0.5);
  EXPECT_EQ(load["errors"][0]["kind"], "HTTP 429");
}

// the command

TEST(BenchServe, ItsKeyIsNotInTheRecord) {
  CLI::App app{"", "nibble"};
  Settings settings;
  // `action` owns the variables that the flags are read into.
  const Action action = define_bench(*app.add_subcommand("bench"), settings);
  app.parse("bench serve http://a --api-key hush --clients 1,4");
  const std::string line = command_line(*app.get_subcommand("bench")->get_subcommand("serve"));
  EXPECT_EQ(line, "nibble bench serve http://a --api-key ... --clients 1,4");
}

TEST(BenchServe, BenchNeedsAModelOrServe) {
  CLI::App app{"", "nibble"};
  Settings settings;
  const Action action = define_bench(*app.add_subcommand("bench"), settings);
  app.parse("bench");
  EXPECT_THAT(error_of([&] { action(); }), HasSubstr("MODEL is required"));
}

}  // namespace
}  // namespace nibble::cli
