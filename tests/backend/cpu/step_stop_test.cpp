// Tests that a step that is given up stops computing, at whatever point it is given up.
#include "backend/cpu/machine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/forward.h"
#include "backend/cpu/parallel.h"
#include "model/checkpoint/synthetic.h"
#include "tests/backend/cpu/operations.h"

namespace nibble::cpu {
namespace {

// Loops with up to kParallelWork of work run on one thread, loops with more work on several.
constexpr double kWorks[]{kParallelWork, 2 * kParallelWork};
constexpr int kThreads{3};

TEST(StepStop, ALoopStartsNoItemAfterItIsSet) {
  ThreadPool pool(kThreads);
  for (const double work : kWorks) {
    std::atomic<bool> is_unneeded{false};
    const StepStop stop(&is_unneeded);
    const Machine machine{choose_kernels(Isa::kPortable), pool, {}, &stop};
    std::atomic<int> num_run{0};
    for_each(machine, 100'000, work, [&](ptrdiff_t, int) {
      if (++num_run == 10) is_unneeded = true;
    });
    EXPECT_GE(num_run, 10);
    EXPECT_LT(num_run, 10 + kThreads);  // other threads may have been about to run an item
  }
}

TEST(StepStop, LaterLoopsRunNothingEvenIfTheFlagIsCleared) {
  ThreadPool pool(kThreads);
  std::atomic<bool> is_unneeded{true};
  const StepStop stop(&is_unneeded);
  const Machine machine{choose_kernels(Isa::kPortable), pool, {}, &stop};
  std::atomic<int> num_run{0};
  const auto run_loops = [&] {
    for (const double work : kWorks) for_each(machine, 1000, work, [&](ptrdiff_t, int) { ++num_run; });
  };
  run_loops();
  is_unneeded = false;  // as before the next step; `stop` stays set
  run_loops();
  EXPECT_EQ(num_run, 0);
}

TEST(StepStop, AStepThatIsNeededRunsEveryItem) {
  ThreadPool pool(kThreads);
  const std::atomic<bool> is_unneeded{false};
  const StepStop needed(&is_unneeded), never(nullptr);
  for (const StepStop* stop : {&needed, &never, static_cast<const StepStop*>(nullptr)}) {
    const Machine machine{choose_kernels(Isa::kPortable), pool, {}, stop};
    for (const double work : kWorks) {
      std::atomic<int> num_run{0};
      for_each(machine, 1000, work, [&](ptrdiff_t, int) { ++num_run; });
      EXPECT_EQ(num_run, 1000);
    }
  }
}

// A forward pass over kTokens tokens that is given up after a number of operations.
class CutForward {
 public:
  static constexpr int kTokens{70};  // more than kTokenBlock

  CutForward(const Config& config, bool int8)
      : config_(config),
        sequence_(config, kTokens, 0),
        rows_(rows_of(sequence_.batch)),
        machine_{choose_kernels(Isa::kPortable), pool_, {}, &stop_},
        packed_(pack(config, int8)),
        kv_(config, Format::kBf16, sequence_.num_pages()),
        activations_(make_activations(config, kTokens, kThreads, {.int8 = int8, .float_experts = true})) {}

  // Runs the pass and gives it up at the end of operation `last`. Returns the bytes of all results twice: as
  // they were at that moment, and as they are after the pass has ended.
  std::pair<std::string, std::string> run(int last) {
    std::string before;
    WorkClock clock(nullptr);
    clock.set_on_end([&, n = 0](Operation) mutable {
      if (n++ != last) return;
      is_unneeded_ = true;
      before = results();
    });
    const auto take_logits = [](ptrdiff_t, View<float, 2>) { FAIL() << "logits of a given-up step"; };
    EXPECT_THROW(forward({machine_, packed_, rope_frequencies(config_.rope, config_.head_dim), rows_,
                          outputs_, kv_, activations_, take_logits, clock}),
                 StepCut);
    return {before, results()};
  }

 private:
  PackedModel pack(const Config& config, bool int8) {
    auto weights = std::make_shared<const Weights>(make_synthetic(config, "test"));
    if (!int8) return {std::move(weights), {}, {}};
    return pack_model(std::move(weights), {}, machine_.kernels.strip(Format::kMxfp4)->strip_rows, pool_);
  }
  std::string results() const {
    std::string bytes(reinterpret_cast<const char*>(activations_.storage.data()),
                      activations_.storage.bytes());
    const LayerKv& layer = kv_.layer(0);
    bytes.append(reinterpret_cast<const char*>(layer.data),
                 KvCache::num_bytes(config_, Format::kBf16, sequence_.num_pages()));
    return bytes;
  }

  const Config config_;
  const OneSequence sequence_;
  const std::vector<BatchRow> rows_;
  const std::vector<int> outputs_{3, kTokens - 1};
  std::atomic<bool> is_unneeded_{false};
  const StepStop stop_{&is_unneeded_};
  ThreadPool pool_{kThreads};
  const Machine machine_;
  const PackedModel packed_;
  KvCache kv_;
  const Activations activations_;
};

TEST(StepStop, AnOperationThatBeginsAfterItIsSetWritesNothing) {
  constexpr int kOperations{7};  // of a model with one layer; the last is not tested: no operation follows it
  for (const bool int8 : {false, true})
    for (int last = 0; last < kOperations - 1; ++last) {
      const auto [before, after] = CutForward(kConfigs[0], int8).run(last);
      ASSERT_FALSE(before.empty());
      EXPECT_TRUE(before == after) << "after operation " << last << (int8 ? ", int8" : ", float");
    }
}

}  // namespace
}  // namespace nibble::cpu
