#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "cli/bench_serve/plan.h"
#include "tests/error_of.h"

namespace nibble::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

BenchServeOptions options_with(const std::function<void(BenchServeOptions&)>& change) {
  BenchServeOptions options;
  change(options);
  return options;
}

TEST(LoadPlan, WithoutFlagsOneClientSendsRequests) {
  const LoadPlan plan = load_plan({}, false);
  ASSERT_THAT(plan.loads, SizeIs(1));
  EXPECT_EQ(plan.loads[0].num_clients, 1);
  EXPECT_EQ(plan.num_requests(plan.loads[0], 0), 64);
  EXPECT_EQ(plan.num_warmups(plan.loads[0]), 2);
}

TEST(LoadPlan, ACurveHasRequestsInProportionToTheClients) {
  LoadPlan plan = load_plan(options_with([](auto& options) { options.clients = {"1,4,16"}; }), false);
  ASSERT_THAT(plan.loads, SizeIs(3));
  EXPECT_EQ(plan.num_requests(plan.loads[2], 0), 160);
  EXPECT_EQ(plan.num_warmups(plan.loads[2]), 32);
  plan = load_plan(options_with([](auto& options) {
                     options.clients = {"4"};
                     options.requests = "3x";
                     options.warmup = "1";
                   }),
                   false);
  EXPECT_EQ(plan.num_requests(plan.loads[0], 0), 12);
  EXPECT_EQ(plan.num_warmups(plan.loads[0]), 1);
}

TEST(LoadPlan, ARateIsKeptUpForTheLeastTime) {
  const LoadPlan plan = load_plan(options_with([](auto& options) {
                                    options.rates = {0.5, 50};
                                    options.min_seconds = 10;
                                    options.requests = "20";
                                  }),
                                  false);
  EXPECT_EQ(plan.num_requests(plan.loads[0], 0), 20);
  EXPECT_EQ(plan.num_requests(plan.loads[1], 0), 500);
  EXPECT_EQ(plan.num_warmups(plan.loads[1]), 2);
}

TEST(LoadPlan, AnSloWithoutLoadsIsASearch) {
  const auto with_slo = [](auto& options) { options.slo = "ttft=1"; };
  const LoadPlan search = load_plan(options_with(with_slo), false);
  EXPECT_THAT(search.loads, IsEmpty());
  EXPECT_EQ(search.min_seconds, 30);
  EXPECT_THAT(load_plan(options_with(with_slo), true).loads, SizeIs(1));  // a trace is a single load
  EXPECT_THAT(load_plan(options_with([&](auto& options) {
                          with_slo(options);
                          options.clients = {"2"};
                        }),
                        false)
                  .loads,
              SizeIs(1));
}

TEST(LoadPlan, ATraceIsReplayedAsLongAsItIs) {
  const LoadPlan plan = load_plan({}, true);
  ASSERT_THAT(plan.loads, SizeIs(1));
  EXPECT_FALSE(plan.loads[0].num_clients || plan.loads[0].rate);
  EXPECT_EQ(plan.num_requests(plan.loads[0], 7), 7);
  const LoadPlan more = load_plan(options_with([](auto& options) { options.requests = "8"; }), true);
  EXPECT_EQ(more.num_requests(more.loads[0], 8), 8);
  EXPECT_THAT(error_of([&] { more.num_requests(more.loads[0], 7); }), HasSubstr("the trace has 7 requests"));
  EXPECT_THAT(error_of([] { load_plan(options_with([](auto& options) { options.min_seconds = 1; }), true); }),
              HasSubstr("--min-seconds"));
}

TEST(LoadPlan, CountsPerClientNeedClients) {
  for (const bool is_rate : {true, false})
    EXPECT_THAT(error_of([&] {
                  load_plan(options_with([&](auto& options) {
                              if (is_rate) options.rates = {2};
                              if (!is_rate) options.slo = "ttft=1";
                              options.warmup = "2x";
                            }),
                            false);
                }),
                AllOf(HasSubstr("--warmup 2x"), HasSubstr("--clients")));
}

TEST(WorkloadOfFlags, ANameReplacesTheLengths) {
  const BenchServeOptions options = options_with([](auto& it) { it.workload = "1k8k"; });
  const Workload workload = workload_of(options, trace_of(options), std::nullopt);
  EXPECT_EQ(workload.prompt_tokens.most, 1024);
  EXPECT_EQ(workload.output_tokens.most, 8192);
  EXPECT_EQ(prompt_tokens_text(options), "819-1024");
  EXPECT_EQ(output_tokens_text(options), "6553-8192");
  EXPECT_EQ(workload.vocab_size, kTextTokens);
}

TEST(WorkloadOfFlags, TheVocabularyIsTheServersUnlessGiven) {
  const nlohmann::ordered_json status{{"vocab", 300}};
  BenchServeOptions options;
  EXPECT_EQ(workload_of(options, {}, status).vocab_size, 300);
  options.vocab_size = 50;
  EXPECT_EQ(workload_of(options, {}, status).vocab_size, 50);
}

TEST(WorkloadOfFlags, AnUnknownNameIsRefusedWithTheKnownOnes) {
  EXPECT_THAT(error_of([] { trace_of(options_with([](auto& it) { it.workload = "2k2k"; })); }),
              AllOf(HasSubstr("--workload '2k2k'"), HasSubstr("1k1k, 1k8k, 8k1k")));
}

}  // namespace
}  // namespace nibble::cli
