// Tests what profilers and metrics see of steps: NVTX ranges, which this file records, and counts of
// launches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cuda/chip/launch_counts.h"
#include "backend/cuda/chip/profiler_range.h"
#include "backend/cuda/cuda_backend.h"
#include "model/checkpoint/synthetic.h"
#include "tests/backend/cuda/emulated/four_heads.h"
#include "tests/backend/cuda/pretended.h"
#include "tests/backend/fulfilment.h"

namespace {

std::mutex profiler_mutex;          // ranks launch in their own threads
std::vector<std::string> recorded;  // names of ranges, in the order in which the ranges begin
int num_open{0};                    // number of open ranges (begun, but not ended) of all threads
thread_local int depth{0};          // number of open ranges of this thread, whose ranges nest

int NVTX_API push(nvtxDomainHandle_t, const nvtxEventAttributes_t* event) {
  const std::lock_guard lock(profiler_mutex);
  recorded.push_back(std::string(static_cast<size_t>(2 * depth), ' ') + event->message.ascii);
  ++num_open;
  return depth++;
}
int NVTX_API pop(nvtxDomainHandle_t) {
  const std::lock_guard lock(profiler_mutex);
  --num_open;
  return --depth;
}
nvtxDomainHandle_t NVTX_API create(const char* name) {
  EXPECT_STREQ(name, "nibble");
  static char domain;
  return reinterpret_cast<nvtxDomainHandle_t>(&domain);
}

template <typename F>
void replace(NvtxFunctionTable table, int id, F* function) {
  *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

// NVTX calls this function (profiler_hook.cpp).
extern "C" int attach_profiler(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
  replace(table, NVTX_CBID_CORE2_DomainCreateA, &create);
  replace(table, NVTX_CBID_CORE2_DomainRangePushEx, &push);
  replace(table, NVTX_CBID_CORE2_DomainRangePop, &pop);
  return 1;
}

namespace nibble::cuda {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Pair;

std::map<std::string, size_t> launches_of(const Backend& backend) {
  std::map<std::string, size_t> counts;
  for (const KernelLaunches& of : backend.launches()) counts[std::string(of.kernel)] = of.count;
  return counts;
}

TEST(Profilers, SeeARangeForEachStepAndForEachOfItsLaunchesWhichAreCounted) {
  ASSERT_TRUE(has_profiler());
  const auto weights = std::make_shared<const Weights>(make_synthetic(four_heads(), "four heads"));
  std::unique_ptr<Backend> made = make(weights, small_options(), pretended());
  const Backend& backend = *made;
  Feeder feeder(std::move(made), Fulfilment::kNumPages);
  const std::vector<TokenId> ids = random_ids(4, weights->config.vocab, 3);
  EXPECT_THAT(backend.launches(), testing::IsEmpty());

  recorded.clear();
  feeder.feed_in_chunks(0, std::span(ids).first(3), 3);
  feeder.feed_in_chunks(0, std::span(ids).last(1), 1);
  const std::map<std::string, size_t> counts = launches_of(backend);
  EXPECT_THAT(counts, AllOf(Contains(Pair("embed", 2)), Contains(Pair("qkv", 2 * 2)),
                            Contains(Pair("experts_down", 2 * 2)), Contains(Pair("unembed", 2))));

  std::map<std::string, size_t> ranges;
  std::vector<std::string> steps;
  for (const std::string& name : recorded)
    if (name.starts_with("  "))
      ++ranges[name.substr(2)];
    else
      steps.push_back(name);
  EXPECT_THAT(steps, ElementsAre("step of 3 rows in 1 runs", "step of 1 rows in 1 runs"));
  EXPECT_EQ(ranges, counts);
  EXPECT_EQ(num_open, 0);
}

TEST(LaunchCounts, OfAReplayAreThoseCountedWhileItsGraphWasCaptured) {
  const char *qkv = "qkv", *attend = "attend";
  LaunchCounts counts;
  counts.count(qkv);
  const LaunchCounts before = counts;
  counts.count(attend);
  counts.count(qkv);
  counts.count(qkv);
  const LaunchCounts of_replay = counts.since(before);
  counts = before;
  counts.add(of_replay);
  counts.add(of_replay);
  std::map<std::string_view, size_t> found;
  for (const KernelLaunches& of : counts.by_kernel()) found[of.kernel] = of.count;
  EXPECT_THAT(found, ElementsAre(Pair("attend", 2), Pair("qkv", 5)));
}

TEST(LaunchCounts, ShowKernelsOfOneNameInTwoFilesTogether) {
  const std::string name = "route";
  LaunchCounts counts;
  counts.count("route");
  counts.count(name.c_str());
  ASSERT_EQ(counts.by_kernel().size(), 1u);
  EXPECT_EQ(counts.by_kernel()[0].count, 2u);
}

}  // namespace
}  // namespace nibble::cuda
