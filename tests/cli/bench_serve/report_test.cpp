#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/bench_serve/report.h"
#include "cli/bench_serve/server_facts.h"
#include "tests/cli/bench_serve/some_answers.h"

namespace nibble::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

BenchServeSetup some_setup() {
  return {.record = {.date = "2026-11-22T02:36:02Z",
                     .command_line = "nibble bench serve URL",
                     .machine = describe_machine(std::nullopt),
                     .kernels = {},
                     .num_warmups = 2},
          .url = "URL/v1",
          .workload = {.api = BenchApi::kChat,
                       .model = "m",
                       .prompt_tokens = read_length("5-20", ""),
                       .output_tokens = read_length("3", ""),
                       .num_prefix_tokens = 4,
                       .num_prefixes = 3,
                       .num_turns = 2,
                       .seed = 1},
          .workload_name = {},
          .prompt_tokens = "5-20",
          .output_tokens = "3",
          .num_gpus = 2,
          .slo = {}};
}

BenchServeRun run_of(const BenchLoad& load, const std::vector<TimedAnswer>& answers) {
  return {.results = {{.load = load, .summary = summarise(answers), .num_warmups = 2, .slo_share = {}}},
          .bounds = {},
          .server = server_json(std::nullopt, std::nullopt)};
}

TEST(ServeReport, HasFiguresAndErrorsByKind) {
  const BenchServeSetup setup = some_setup();
  const BenchServeRun run = run_of({.rate = 2.5}, some_answers());
  const std::string header = serve_markdown_header(setup), row = serve_markdown_row(setup, run.results[0]);
  EXPECT_EQ(std::count(header.begin(), header.end(), '|'), 2 * std::count(row.begin(), row.end(), '|'));
  EXPECT_THAT(row, AllOf(HasSubstr("2.5 /s"), HasSubstr("500.00 /")));
  // 150 prompt tokens and 7 output tokens in 10 s, on 2 GPUs; the median TPOT is 0.75 s.
  EXPECT_THAT(row, AllOf(HasSubstr(" 15.7 |"), HasSubstr(" 7.8 |"), HasSubstr(" 1.3 |")));
  EXPECT_THAT(serve_markdown_footer(setup, run),
              AllOf(HasSubstr("`nibble bench serve URL`"), HasSubstr("commit "), HasSubstr("seed 1"),
                    HasSubstr("3 shared prefixes of 4"), HasSubstr("conversations of 2 turns"),
                    HasSubstr("1 failed: HTTP 429, such as 'full'"),
                    HasSubstr("1 answers did not report their usage"), Not(HasSubstr("server:"))));
}

TEST(ServeReport, TheRecordHasAllFigures) {
  const auto json = serve_json(some_setup(), run_of({.rate = 2.5}, some_answers()));
  const auto& load = json["loads"][0];
  EXPECT_EQ(json["date"], "2026-11-22T02:36:02Z");
  EXPECT_EQ(json["num_warmups"], 2);
  for (const char* unknown : {"server", "kernels", "launches", "drafts", "workload", "slo_seconds"})
    EXPECT_TRUE(json.at(unknown).is_null()) << unknown;
  EXPECT_EQ(json["api"], "chat");
  EXPECT_EQ(json["num_turns"], 2);
  EXPECT_EQ(json["vocab_size"], 199'998);
  EXPECT_TRUE(load["num_clients"].is_null());
  EXPECT_EQ(load["rate"], 2.5);
  EXPECT_EQ(load["num_output_tokens"], 7);
  EXPECT_DOUBLE_EQ(load["tokens_per_second"], 15.7);
  EXPECT_DOUBLE_EQ(load["tokens_per_second_per_gpu"], 7.85);
  EXPECT_DOUBLE_EQ(load["interactivity"], 1 / 0.75);
  EXPECT_DOUBLE_EQ(load["ttft_seconds"]["p50"], 0.5);
  EXPECT_EQ(load["errors"][0]["kind"], "HTTP 429");
}

TEST(ServeReport, StatesTheLatencyThatPromptProcessingLeavesOut) {
  BenchServeSetup setup = some_setup();
  setup.latency_mode = "generation";
  setup.latency = 0.125;
  BenchServeRun run = run_of({.rate = 2.5}, some_answers());
  run.results[0].summary = summarise(some_answers(), setup.latency);
  EXPECT_THAT(serve_markdown_footer(setup, run),
              HasSubstr("est_ppt is TTFR less a latency of 125.00 ms (--latency-mode generation)"));
  EXPECT_THAT(serve_markdown_row(setup, run.results[0]), HasSubstr("| 125.00 / 725.00 /"));  // est_ppt
  const auto json = serve_json(setup, run);
  EXPECT_EQ(json["latency_mode"], "generation");
  EXPECT_EQ(json["latency_seconds"], 0.125);
  EXPECT_EQ(json["loads"][0]["ttfr_seconds"]["p50"], 0.25);
  EXPECT_EQ(json["loads"][0]["est_ppt_seconds"]["p50"], 0.125);
  EXPECT_EQ(json["loads"][0]["prefill_tokens_per_second"]["max"], 36 / 0.125);
  setup.latency.reset();
  EXPECT_THAT(serve_markdown_footer(setup, run), HasSubstr("est_ppt is unknown"));
  EXPECT_TRUE(serve_json(setup, run)["latency_seconds"].is_null());
}

TEST(ServeReport, HasTheTimesOfEveryTokenIfTheAnswersAreKept) {
  BenchServeRun run = run_of({.rate = 2.5}, some_answers());
  EXPECT_FALSE(serve_json(some_setup(), run)["loads"][0].contains("requests"));
  run.results[0].answers = some_answers();
  run.results[0].answers[1].event_tokens = {1, 2};
  const auto requests = serve_json(some_setup(), run)["loads"][0]["requests"];
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_EQ(requests[0], (nlohmann::ordered_json{{"sent_ms", 0.0},
                                                 {"ttfr_ms", 250.0},
                                                 {"token_ms", {500.0, 750.0, 1500.0}},
                                                 {"e2e_ms", 1500.0},
                                                 {"num_prompt_tokens", 100},
                                                 {"num_cached_tokens", 64},
                                                 {"num_output_tokens", 3},
                                                 {"error", nullptr}}));
  EXPECT_EQ(requests[1]["sent_ms"], 1000);
  // the last two tokens came in one event
  EXPECT_EQ(requests[1]["token_ms"], (nlohmann::ordered_json{1000.0, 2000.0, 2000.0}));
  EXPECT_EQ(requests[2]["error"], "HTTP 429");
  EXPECT_TRUE(requests[2]["ttfr_ms"].is_null());
}

TEST(ServeReport, ASearchHasItsRateAndTheSharesThatDecidedIt) {
  BenchServeSetup setup = some_setup();
  setup.slo = read_slo("ttft=3,tpot=0.08", "");
  BenchServeRun run = run_of({.rate = 2}, some_answers());
  run.results[0].slo_share = 0.995;
  run.bounds = {.holds = 2, .fails = 2.1};
  const std::string header = serve_markdown_header(setup), row = serve_markdown_row(setup, run.results[0]);
  EXPECT_EQ(std::count(header.begin(), header.end(), '|'), 2 * std::count(row.begin(), row.end(), '|'));
  EXPECT_THAT(row, HasSubstr("99.5 %"));
  EXPECT_THAT(serve_markdown_footer(setup, run),
              HasSubstr("highest rate that holds the SLO for 99 % of the requests: 2 /s; 2.1 /s does not"));
  const auto json = serve_json(setup, run);
  EXPECT_EQ(json["highest_rate"], (nlohmann::ordered_json{{"holds", 2.0}, {"fails", 2.1}}));
  EXPECT_EQ(json["slo_seconds"], (nlohmann::ordered_json{{"tpot", 0.08}, {"ttft", 3.0}}));
  EXPECT_EQ(json["loads"][0]["slo_share"], 0.995);
  run.bounds = {.holds = {}, .fails = 0.015625};
  EXPECT_THAT(serve_markdown_footer(setup, run), HasSubstr("no rate holds the SLO"));
}

TEST(ServeReport, WhereAllFailNothingIsMadeUp) {
  std::vector<TimedAnswer> answers(2);
  for (TimedAnswer& answer : answers) answer = some_answers()[2];
  const BenchServeRun run = run_of({.num_clients = 2}, answers);
  const LoadSummary& summary = run.results[0].summary;
  EXPECT_FALSE(summary.ttft || summary.e2e || summary.interactivity());
  EXPECT_EQ(summary.requests_per_second(), 0);
  EXPECT_THAT(serve_markdown_row(some_setup(), run.results[0]), HasSubstr("2 clients"));
}

// the server

std::string status_with(int num_replayed) {
  return R"({"model":"m","version":"1.2","vocab":300,"max_context":64,"engine":{"launches":{"graph_replayed":)" +
         std::to_string(num_replayed) +
         R"(}},"setup":{"backend":"cuda","device":"a GPU","num_devices":2,"kernels":[{"kernel":"k"}]}})";
}

TEST(ServerFacts, AStatusOfNibbleGivesKernelsAndTheLaunchesOfTheRun) {
  BenchServeRun run = run_of({.num_clients = 1}, some_answers());
  run.server = server_json(parse_status(status_with(10)), parse_status(status_with(25)));
  EXPECT_THAT(serve_markdown_footer(some_setup(), run),
              HasSubstr("- server: nibble 1.2 on a GPU; steps: graph_replayed 15\n"));
  const auto json = serve_json(some_setup(), run);
  EXPECT_EQ(json["kernels"][0]["kernel"], "k");
  EXPECT_EQ(json["launches"]["graph_replayed"], 15);
  EXPECT_EQ(json["server"]["num_devices"], 2);
}

std::string status_with_drafts(int num_drafted, int num_accepted) {
  Json status = Json::parse(status_with(0));
  status["engine"]["drafts"] = {
      {"drafts", 10}, {"drafted_tokens", num_drafted}, {"accepted_tokens", num_accepted}};
  return status.dump();
}

TEST(ServerFacts, TheDraftsOfTheRunAreThoseSinceItBegan) {
  BenchServeRun run = run_of({.num_clients = 1}, some_answers());
  run.server =
      server_json(parse_status(status_with_drafts(30, 20)), parse_status(status_with_drafts(70, 50)));
  EXPECT_THAT(serve_markdown_footer(some_setup(), run), HasSubstr("; drafts: 40 tokens, 75.0 % accepted\n"));
  const auto drafts = serve_json(some_setup(), run)["drafts"];
  EXPECT_EQ(drafts["drafted_tokens"], 40);
  EXPECT_EQ(drafts["accepted_tokens"], 30);
  EXPECT_EQ(drafts["acceptance"], 0.75);
}

TEST(ServerFacts, WithoutDraftsThereIsNoAcceptance) {
  const auto none = parse_status(status_with_drafts(30, 20));
  EXPECT_TRUE(server_json(none, none)["drafts"]["acceptance"].is_null());
  EXPECT_TRUE(server_json(none, parse_status(status_with(0)))["drafts"].is_null());  // an older nibble
}

TEST(ServerFacts, OtherAnswersAreNoStatus) {
  EXPECT_TRUE(parse_status(status_with(0)));
  for (const char* body : {"", "[]", "{}", "ok", R"({"version":"1","vocab":3,"engine":{},"setup":{}})",
                           R"({"version":"1","vocab":3,"engine":1,"setup":{}})"})
    EXPECT_FALSE(parse_status(body)) << body;
}

}  // namespace
}  // namespace nibble::cli
