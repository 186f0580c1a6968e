// Compares predictions for replicas with measurements: two servers of the bundled model behind a proxy.
#include "cli/predict/serving.h"
#include "core/text/json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "core/numbers/random.h"
#include "engine/scheduler.h"
#include "setup/plan/capacity.h"
#include "setup/start/resolve.h"
#include "tests/folders.h"

namespace nibble::cli {
namespace {

// Values of the field `setup` of records of two replicas.
struct ReplicaSetup {
  bool by_prefix, is_large;
  auto operator<=>(const ReplicaSetup&) const = default;
};

// Returns the measured shares of prompt tokens found in the cache. Earlier records are left out: their
// servers had a pool of pages for each kind of layer.
std::map<ReplicaSetup, std::vector<double>> measured_shares() {
  std::ifstream file(test::source_path("records/replicas.jsonl"));
  std::map<ReplicaSetup, std::vector<double>> shares;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json record = nlohmann::json::parse(line), &setup = record.at("setup"),
                         &load = record.at("loads").at(0);
    const std::string affinity = setup.at("affinity"), serve = setup.at("serve");
    if (record.at("date").get<std::string>() < "2026-11-27") continue;
    if (affinity != "none" && affinity != "deploy") continue;
    shares[{affinity == "deploy", serve.ends_with(" 64")}].push_back(
        load.at("num_cached_tokens").get<double>() / load.at("num_prompt_tokens").get<double>());
  }
  return shares;
}

// 400 chats of 650 tokens begin with one of 40 prefixes of 576 tokens. The first request with a prefix misses
// on each replica that gets it. For other requests the prediction gives the share of hits. Four clients run,
// two per replica.
TEST(Serving, PrefixesAreFoundAsOftenAsTwoReplicasFoundThem) {
  const Request chat{650, 16, 576, 40};
  const Config config = *named_config("gpt-oss-20b");  // windows of 128, as in the bundled model
  constexpr double kNumRequests{400};
  constexpr int kClientsOfReplica{2};
  const auto shares = measured_shares();
  ASSERT_EQ(shares.size(), 4u);
  for (const auto& [setup, measured] : shares) {
    const int max_sequences = setup.is_large ? 64 : 16;
    const BackendOptions options = backend_options(config, resolve({}), {1024, max_sequences});
    const double num_prefixes = setup.by_prefix ? 20 : 40, first = 2 * num_prefixes / kNumRequests,
                 found =
                     found_share(room_beside(options, config, chat, kClientsOfReplica), chat, num_prefixes),
                 share = (1 - first) * found * chat.prefix_tokens / chat.prompt_tokens;
    std::vector<double> sorted = measured;
    std::sort(sorted.begin(), sorted.end());
    SCOPED_TRACE((setup.by_prefix ? "by prefix" : "by turns") +
                 std::string(setup.is_large ? ", large" : ", small"));
    const double median = sorted[sorted.size() / 2];
    if (setup.is_large) {
      EXPECT_NEAR(share, median, 0.03);
    } else {
      // A small cache also finds parts of prefixes, which the prediction leaves out.
      EXPECT_LT(share, median);
      EXPECT_GT(share, median - 0.25);
    }
  }
}

// Returns the share of `num_requests` requests whose prefix the scheduler finds, with `num_running` requests
// at the same time and all prefixes equally likely. The first requests are not counted.
double share_found_by_scheduler(const BackendOptions& options, const Request& request, int num_running) {
  constexpr uint64_t kNumBefore{400}, kNumRequests{1200};
  Scheduler scheduler({.max_batch_tokens = options.max_batch_tokens,
                       .max_sequences = num_running,
                       .num_pages = options.num_pages,
                       .window = 128});
  std::vector<TokenId> prompt(static_cast<size_t>(request.prompt_tokens));
  uint64_t num_added = 0, num_found = 0;
  const auto add = [&] {
    const uint64_t id = ++num_added,
                   prefix = random_bits(1, id) % static_cast<uint64_t>(request.num_prefixes);
    for (size_t i = 0; i < prompt.size(); ++i)
      prompt[i] = static_cast<TokenId>(
          random_bits(i < static_cast<size_t>(request.prefix_tokens) ? 1'000'000 + prefix : id, i) % 200000);
    scheduler.add(RequestId{id}, prompt, request.answer_tokens);
  };
  std::map<RequestId, int> num_left;
  for (int n = 0; n < num_running; ++n) add();
  while (num_added < kNumBefore + kNumRequests) {
    for (const Slice& slice : scheduler.next()) {
      const auto id = static_cast<uint64_t>(slice.request);
      if (num_left.emplace(slice.request, request.answer_tokens).second && id > kNumBefore)
        num_found += slice.first_position >= request.prefix_tokens;
      if (!slice.gives_token) continue;
      scheduler.push(slice.request,
                     static_cast<TokenId>(random_bits(id, 5000 + num_left[slice.request]) % 200000));
      if (--num_left[slice.request] > 0) continue;
      scheduler.remove(slice.request);
      add();
    }
  }
  return static_cast<double>(num_found) / kNumRequests;
}

// Pools have the sizes of real servers, with few pages and with enough. The prediction is approximate: it
// assumes that half of the running requests have computed their prefix, and it ignores the additional pages
// that remain if concurrent requests compute the same prefix.
TEST(Serving, PrefixesAreFoundNearlyAsOftenAsTheSchedulerFindsThem) {
  const Config config = *named_config("gpt-oss-20b");
  double least = 1, most = 0;
  for (const int num_prefixes : {20, 100, 1000})
    for (const int num_running : {4, 16, 32})
      for (const int max_batch_tokens : {512, 8192})
        for (const int num_pages : {2000, 4000, 8000}) {
          const Request request{1024, 64, 768, num_prefixes};
          ResolvedSettings setup = resolve({});
          setup.options.max_batch_tokens = max_batch_tokens;
          BackendOptions options = backend_options(config, setup, {32768, num_running});
          options.num_pages = num_pages;
          const CacheRoom room = room_beside(options, config, request, num_running);
          const double found = share_found_by_scheduler(options, request, num_running);
          EXPECT_NEAR(found_share(room, request, num_prefixes), found, 0.15)
              << num_prefixes << " beginnings, " << num_running << " at once, " << num_pages << " pages";
          least = std::min(least, found);
          most = std::max(most, found);
        }
  EXPECT_LT(least, 0.05);
  EXPECT_GT(most, 0.95);
}

// Each of the 100 prefixes takes 14 pages: 10 full pages, and the 4 sliding pages from position 193 on, which
// are needed to resume at position 320.
constexpr Request kShared{
    .prompt_tokens = 320, .answer_tokens = 0, .prefix_tokens = 320, .num_prefixes = 100};

TEST(Serving, APrefixIsFoundWhereAllHaveRoom) {
  EXPECT_EQ(found_share({1400, 1000, 128}, kShared, 100), 1);
  EXPECT_EQ(found_share({0, 1000, 128}, kShared, 100), 0);
  EXPECT_EQ(found_share({1400, -5, 128}, kShared, 100), 0);
  // A request has no tokens after its prefix, so it leaves no pages of its own. Half of the 1,400 pages then
  // hold half of the 100 prefixes, or all of the 50 that one of two replicas gets. The list of unused
  // sliding pages has room for every prefix.
  EXPECT_NEAR(found_share({700, 10000, 128}, kShared, 100), 0.5, 1e-6);
  EXPECT_EQ(found_share({700, 10000, 128}, kShared, 50), 1);
}

// A request that misses its prefix leaves the 10 sliding pages of the prefix unused. The list of unused
// pages has room for 30: the pages of the last T = 3 requests that missed. If all requests missed, a request
// would find its prefix there with a probability of 1 - e^(-3 / 100). Once found, a prefix stays cached,
// because there is room for the full pages of all prefixes.
TEST(Serving, APrefixThatWasFoundOnceStays) {
  const double once = 1 - std::exp(-0.03), found = found_share({1400, 30, 128}, kShared, 100);
  EXPECT_GT(found, once);
  EXPECT_LE(found, 1);
}

TEST(Serving, PagesLeftByRequestsTakeRoomFromPrefixes) {
  Request request = kShared;
  double last = 1.1;
  for (const int own : {0, 32, 64, 640}) {
    request.prompt_tokens = 320 + own;
    const double share = found_share({1400, 100000, 128}, request, 100);
    EXPECT_LT(share, last) << own;
    last = share;
  }
  // A request leaves 20 full pages of its own, and the 5 sliding pages of the window at its end. A prefix is
  // found if one of the last T requests used it; T is such that their pages fill the 1,400 pages. They use
  // 100 (1 - e^(-T / 100)) different prefixes of 14 pages each, so 100 (1 - e^(-T / 100)) 14 + 25 T = 1,400,
  // and T = 38.21.
  EXPECT_NEAR(last, 1 - std::exp(-0.3821), 1e-3);
}

// For these tests, a step takes one second per token.
double rows_of(const PredictedStep& step) { return step.num_rows(); }

TEST(Serving, ARoundIsItsPromptsAndItsAnswers) {
  const Request request{100, 11, 0, 1};
  const ServingRound alone = round_of(request, 1, 0, 1024, rows_of);
  EXPECT_DOUBLE_EQ(alone.prompt_seconds, 100);
  EXPECT_DOUBLE_EQ(alone.answer_seconds, 10);  // the prefill step gives the first token
  const ServingRound four = round_of(request, 4, 0, 1024, rows_of);
  EXPECT_DOUBLE_EQ(four.prompt_seconds, 400);
  EXPECT_DOUBLE_EQ(four.answer_seconds, 40);
  // the prompt runs in steps of at most 30 tokens
  EXPECT_DOUBLE_EQ(round_of(request, 1, 0, 30, rows_of).prompt_seconds, 100);
}

TEST(Serving, StepsSeeWhatIsBeforeThem) {
  std::vector<PredictedStep> steps;
  const auto note = [&](const PredictedStep& step) {
    steps.push_back(step);
    return 1.0;
  };
  // 64 of 96 tokens are found. Two prompts share a step of 64 rows, so four prompts take two steps. Then
  // there are 9 steps of four tokens each.
  const ServingRound round = round_of({96, 10, 64, 1}, 4, 1, 64, note);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].num_tokens, 32);
  EXPECT_EQ(steps[0].num_sequences, 2);
  EXPECT_EQ(steps[0].context, 96);
  EXPECT_TRUE(steps[0].wants_next);
  EXPECT_EQ(steps[1].num_sequences, 4);
  EXPECT_EQ(steps[1].context, 96 + 5);
  EXPECT_DOUBLE_EQ(round.prompt_seconds, 2);
  EXPECT_DOUBLE_EQ(round.answer_seconds, 9);
}

TEST(Serving, ReplicasMultiplyAndShareBeginnings) {
  const Config config = *named_config("gpt-oss-20b");
  const Request request{320, 32, 256, 1000};
  const BackendOptions options = backend_options(config, resolve({}), {1024, 16});
  const auto of = [&](int count, bool by_prefix) {
    return replicas_of(options, config, request, {count, 4, by_prefix}, rows_of);
  };
  EXPECT_DOUBLE_EQ(of(10, false).requests_per_second(), 10 * of(1, false).requests_per_second());
  EXPECT_EQ(of(1, true).found, of(1, false).found);
  EXPECT_GT(*of(10, true).found, 5 * *of(10, false).found);
  EXPECT_GT(of(10, true).requests_per_second(), of(10, false).requests_per_second());
  EXPECT_FALSE(replicas_of(options, config, {320, 32, 0, 1}, {10, 4, true}, rows_of).found);
}

}  // namespace
}  // namespace nibble::cli
