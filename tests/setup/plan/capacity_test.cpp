#include "setup/plan/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "setup/model/model.h"
#include "setup/plan/memory.h"
#include "setup/start/resolve.h"
#include "tests/error_of.h"

namespace nibble {
namespace {

TEST(Capacity, TheContextIsAsRequestedUpToTheModelsMaximum) {
  const Config config = *named_config("gpt-oss-20b");  // the model's maximum is 131,072
  EXPECT_EQ(context_of(config, resolve({})), kDefaultContext);
  Settings settings;
  settings.context = 131072;
  EXPECT_EQ(context_of(config, resolve(settings)), 131072);
  settings.context = 131073;
  EXPECT_THAT(error_of([&] { context_of(config, resolve(settings)); }), testing::HasSubstr("at most 131072"));

  Config small = config;
  small.max_context = 100;
  EXPECT_EQ(context_of(small, resolve({})), 100);
}

TEST(Capacity, PagesCoverTheContextOfEverySequence) {
  const Config config = *named_config("gpt-oss-20b");
  const BackendOptions options = backend_options(config, resolve({}), {1025, 3});
  // In full layers, 1,025 positions take 33 pages of 32. In sliding layers, each sequence needs 5 pages for
  // its window of 128, 5 for the window at its prompt's end, and 2 for the pages before and after its
  // window. Pages are freed one step late, so all sequences together also need twice the 16 pages of a
  // step's 512 rows.
  EXPECT_EQ(options.num_pages, 3 * 33 + 3 * (5 + 5 + 2) + 2 * 16);
  // Three sequences that share all their pages still have a page table each.
  EXPECT_GE(options.max_table_pages, 3 * (33 + 5));
  // A window and a chunk of 512 span at most 127 + 512 positions: 20 pages, and one more if they begin inside
  // a page.
  EXPECT_GE(backend_options(config, resolve({}), {1025, 1}).num_pages, 33 + 21);
  // A context of 64 tokens needs only its own 2 pages in each kind of layer.
  EXPECT_EQ(backend_options(config, resolve({}), {64, 1}).num_pages, 2 + 2);
}

// Returns the memory plan of a backend that has 1,000 bytes of weights and 10 bytes per page.
MemoryPlan plan_of_pages(const Config&, const BackendOptions& options, const OwnOptions&) {
  return {.weight_bytes = 1000, .kv_bytes = static_cast<size_t>(10 * options.num_pages)};
}
std::vector<MemoryPlan> plans_of_one(const Config& config, const BackendOptions& options,
                                     const OwnOptions& own) {
  return {plan_of_pages(config, options, own)};
}
class ServingCapacity : public testing::Test {
 protected:
  void SetUp() override {
    row_.memory.plan = &plan_of_pages;
    row_.device.emplace().plans = &plans_of_one;
    setup_.backend = &row_;
  }
  int num_pages(size_t budget) const {
    return serving_options(model_, setup_, capacity_, {&budget, 1}).num_pages;
  }

  BackendRow row_{find_backend("cpu")};
  ResolvedSettings setup_{resolve({})};
  const Model model_{open_model("synthetic:gpt-oss-20b", {})};
  // 3,200 tokens for each of 4 sequences: 100 pages of full layers, and 5 of sliding layers
  const Capacity capacity_{3200, 4};
};

TEST_F(ServingCapacity, ADevicesCacheTakesWhatTheWeightsLeave) {
  EXPECT_EQ(num_pages(1000 + 6000), 600);
  EXPECT_EQ(num_pages(1000 + 5999), 599);
  EXPECT_EQ(num_pages(1000 + 1060), 106);
}

TEST_F(ServingCapacity, ThereIsRoomForOneSequenceOrTheBackendRefuses) {
  EXPECT_EQ(num_pages(1000 + 1050), 105);
  EXPECT_EQ(num_pages(1000 + 1049), 105);
  EXPECT_EQ(num_pages(0), 105);
}

TEST_F(ServingCapacity, AsManySequencesFitAsTheirPagesDo) {
  const auto bytes = [&](int count) {
    const BackendOptions options = backend_options(model_.config, setup_, {3200, count});
    return static_cast<size_t>(1000 + 10 * options.num_pages);
  };
  const auto most = [&](size_t budget) { return most_sequences(model_, setup_, 3200, {&budget, 1}); };
  EXPECT_EQ(most(bytes(7)), 7);
  EXPECT_EQ(most(bytes(7) - 1), 6);
  EXPECT_EQ(most(bytes(1) - 1), 0);
  // 2^20 is the number of pages that a step can address.
  EXPECT_EQ(most(size_t{1} << 40), (1 << 20) / 100);
}

// Plans for two GPUs. The first GPU has three quarters of everything.
std::vector<MemoryPlan> plans_of_two(const Config& config, const BackendOptions& options,
                                     const OwnOptions& own) {
  const MemoryPlan whole = plan_of_pages(config, options, own);
  return {{.weight_bytes = whole.weight_bytes * 3 / 4, .kv_bytes = whole.kv_bytes * 3 / 4},
          {.weight_bytes = whole.weight_bytes / 4, .kv_bytes = whole.kv_bytes / 4}};
}

TEST_F(ServingCapacity, EachGpuHasItsPartOfThePages) {
  const auto pages = [&](size_t first, size_t second) {
    return serving_options(model_, setup_, capacity_, std::array{first, second}).num_pages;
  };
  const size_t whole = 2 * 1000 + 80000;
  const int of_whole = num_pages(whole), of_half = num_pages(whole / 2);
  row_.device->plans = &plans_of_two;
  ASSERT_GT(of_half, 1000);
  // The first GPU needs 3/4 of `whole`, the second 1/4. If one GPU has exactly the memory that it needs, and
  // the other GPU has no less than it needs, the capacity is that of a single GPU with `whole`.
  EXPECT_NEAR(pages(whole * 3 / 4, whole / 4), of_whole, 1);
  EXPECT_NEAR(pages(whole * 3 / 4, whole), of_whole, 1);
  EXPECT_NEAR(pages(whole, whole / 4), of_whole, 1);
  // A small GPU is full first, even if another one has room for more.
  EXPECT_NEAR(pages(whole, whole / 8), of_half, 1);
  EXPECT_EQ(pages(whole, 0), 105);
  EXPECT_EQ(most_sequences(model_, setup_, 3200, std::array<size_t, 2>{whole, 0}), 0);
}

TEST_F(ServingCapacity, TheHostsMemoryIsTakenOnlyForTheRequestedSequences) {
  row_.device.reset();
  const size_t weights = kept_weight_bytes(model_, plan_of_pages(model_.config, {}, {}), setup_);
  const int asked = backend_options(model_.config, setup_, capacity_).num_pages;
  EXPECT_EQ(num_pages(weights + 1000 + 70000), asked);
  EXPECT_EQ(num_pages(weights + 1000 + 10 * static_cast<size_t>(asked) - 1), asked - 1);
  EXPECT_EQ(num_pages(weights + 1000 + 500), 105);
}

}  // namespace
}  // namespace nibble
