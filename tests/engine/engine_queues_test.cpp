#include "engine/engine_queues.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <variant>
#include <vector>

namespace nibble {
namespace {

using std::chrono::milliseconds;

GenerationRequest request_with_seed(uint64_t seed) {
  GenerationRequest request;
  request.sample.seed = seed;
  return request;
}

RequestId request_of(const Event& event) {
  return std::visit([](const auto& any) { return any.request; }, event);
}

TEST(EngineQueues, TheChoicesOfARequestHaveAdjacentIdsAndDifferentSeeds) {
  EngineQueues queues;
  const std::vector<RequestId> ids = queues.submit(request_with_seed(7), 3, {});
  const auto orders = queues.take_orders(/*is_idle=*/true);
  ASSERT_TRUE(orders);
  ASSERT_EQ(orders->size(), 3u);
  std::set<uint64_t> seeds;
  for (size_t n = 0; n < 3; ++n) {
    EXPECT_EQ((*orders)[n].id, ids[n]);
    EXPECT_EQ(static_cast<uint64_t>(ids[n]), static_cast<uint64_t>(ids[0]) + n);
    seeds.insert((*orders)[n].request->sample.seed);
  }
  EXPECT_EQ((*orders)[0].request->sample.seed, 7u);
  EXPECT_EQ(seeds.size(), 3u);
  EXPECT_TRUE(queues.take_orders(/*is_idle=*/false)->empty()) << "they are taken once";
}

TEST(EngineQueues, ARequestWithAFaultGivesEventsAndNoOrder) {
  EngineQueues queues;
  const std::vector<RequestId> ids = queues.submit(request_with_seed(7), 2, "the prompt is empty");
  EXPECT_TRUE(queues.take_orders(/*is_idle=*/false)->empty());
  const std::vector<Event> events = queues.wait_events(milliseconds(0));
  ASSERT_EQ(events.size(), 2u);
  for (size_t n = 0; n < 2; ++n) {
    const auto& failed = std::get<FailedEvent>(events[n]);
    EXPECT_EQ(failed.request, ids[n]);
    EXPECT_EQ(failed.message, "the prompt is empty");
    EXPECT_TRUE(failed.is_requests_own);
  }
}

TEST(EngineQueues, EventsArriveWithTheStateAndInTheirOrder) {
  EngineQueues queues;
  for (int n = 1; n <= 4; ++n) queues.put(TokenEvent{.request = static_cast<RequestId>(n)});
  EXPECT_FALSE(queues.wait_event(milliseconds(0))) << "they are not published yet";
  queues.publish({.num_running = 5});
  EXPECT_EQ(queues.state().num_running, 5);
  EXPECT_EQ(request_of(*queues.wait_event(milliseconds(0))), static_cast<RequestId>(1));
  queues.put(TokenEvent{.request = static_cast<RequestId>(5)});
  queues.publish({});
  EXPECT_EQ(request_of(*queues.wait_event(milliseconds(0))), static_cast<RequestId>(2));
  const std::vector<Event> rest = queues.wait_events(milliseconds(0));
  ASSERT_EQ(rest.size(), 3u);
  for (size_t n = 0; n < 3; ++n) EXPECT_EQ(request_of(rest[n]), static_cast<RequestId>(3 + n));
  EXPECT_FALSE(queues.wait_event(milliseconds(0)));
}

TEST(EngineQueues, AStateWithoutStepsKeepsThePublishedOnes) {
  EngineQueues queues;
  queues.publish({.num_running = 1, .steps = {{"steps of a recorded graph", "graph_replayed", 3}}});
  queues.publish({.num_running = 2});
  ASSERT_EQ(queues.state().steps.size(), 1u);
  EXPECT_EQ(queues.state().steps[0].value, 3u);
  EXPECT_EQ(queues.state().num_running, 2);
}

TEST(EngineQueues, AnIdleEngineWaitsForAnOrderOrForTheEnd) {
  EngineQueues queues;
  std::thread client([&] { queues.cancel(static_cast<RequestId>(9)); });
  const auto orders = queues.take_orders(/*is_idle=*/true);
  client.join();
  ASSERT_EQ(orders->size(), 1u);
  EXPECT_EQ(orders->front().id, static_cast<RequestId>(9));
  EXPECT_FALSE(orders->front().request);
  client = std::thread([&] { queues.close(); });
  EXPECT_FALSE(queues.take_orders(/*is_idle=*/true));
  client.join();
}

TEST(EngineQueues, TimeCountsWhileAnEngineHasWork) {
  EngineQueues queues;
  EXPECT_EQ(queues.state().progress.seconds, 0);
  queues.submit(request_with_seed(7), 1, {});
  std::this_thread::sleep_for(milliseconds(2));
  EXPECT_GT(queues.state().progress.seconds, 0);
  queues.take_orders(/*is_idle=*/true);
  EXPECT_GT(queues.state().progress.seconds, 0);
  std::thread client([&] {
    while (queues.state().progress.seconds > 0) std::this_thread::yield();
    queues.close();
  });
  queues.take_orders(/*is_idle=*/true);  // finds no orders, so the work has ended
  client.join();
  EXPECT_EQ(queues.state().progress.seconds, 0);
}

TEST(EngineQueues, AStepIsUnneededOnceAllItsRequestsAreCancelled) {
  EngineQueues queues;
  const std::vector<RequestId> ids = queues.submit(request_with_seed(7), 3, {});
  queues.cancel(ids[0]);  // before the step begins
  {
    const EngineQueues::NeededStep step(queues, ids);
    queues.cancel(ids[1]);
    EXPECT_FALSE(queues.is_unneeded());
    queues.cancel(ids[2]);
    EXPECT_TRUE(queues.is_unneeded());
  }
  const EngineQueues::NeededStep next(queues, queues.submit(request_with_seed(7), 1, {}));
  EXPECT_FALSE(queues.is_unneeded());
  queues.close();
  EXPECT_TRUE(queues.is_unneeded());
}

}  // namespace
}  // namespace nibble
