// Benchmarks the scheduler's time per step, and the number of steps in which it serves requests from a pool
// that is too small: 1,000 prompts of 200 tokens, with a limit of 2,000 and answers of 20 to 180 tokens; 64
// at once, steps of 512 rows.
//
// `steps` matters most where decoding is bound by memory: a step of many sequences takes about the same time
// as one of few.
#include <benchmark/benchmark.h>

#include <map>
#include <vector>

#include "core/numbers/random.h"
#include "engine/scheduler.h"

namespace nibble {
namespace {

void serve(benchmark::State& state) {
  constexpr int kNumRequests{1000}, kNumPrompt{200}, kMaxOutput{2000};
  int64_t num_steps = 0, num_slices = 0;
  uint64_t num_preemptions = 0;
  for (auto _ : state) {
    Scheduler scheduler({.max_batch_tokens = 512,
                         .max_sequences = 64,
                         .num_pages = static_cast<int>(state.range(0)) + 64 * 21,
                         .window = 128});
    std::map<RequestId, uint64_t> num_left;
    std::vector<TokenId> prompt(kNumPrompt);
    for (uint64_t n = 1; n <= kNumRequests; ++n) {
      for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(random_bits(n, i) % 200000);
      scheduler.add(RequestId{n}, prompt, kMaxOutput);
      num_left[RequestId{n}] = 20 + random_bits(9, n) % 161;
    }
    for (; !scheduler.is_idle(); ++num_steps) {
      const std::vector<Slice> slices = scheduler.next();
      num_slices += std::ssize(slices);
      for (const Slice& slice : slices) {
        const auto token = static_cast<TokenId>(
            random_bits(static_cast<uint64_t>(slice.request), static_cast<uint64_t>(slice.first_position)) %
            200000);
        if (slice.gives_token) scheduler.push(slice.request, token);
        if (slice.gives_token && --num_left[slice.request] == 0) scheduler.remove(slice.request);
      }
    }
    num_preemptions += scheduler.counts().num_preemptions;
  }
  const auto per_run = benchmark::Counter::kAvgIterations;
  state.counters["steps"] = benchmark::Counter(static_cast<double>(num_steps), per_run);
  state.counters["preemptions"] = benchmark::Counter(static_cast<double>(num_preemptions), per_run);
  state.counters["sequences_per_step"] = static_cast<double>(num_slices) / static_cast<double>(num_steps);
  state.counters["seconds_per_step"] = benchmark::Counter(
      static_cast<double>(num_steps), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(serve)->ArgName("full_pages")->Arg(128)->Arg(512)->Arg(4096)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace nibble
