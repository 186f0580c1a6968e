// Benchmarks whole steps of the CPU backend: decoding one sequence, and prefill. The miniature model stays in
// the caches. With synthetic gpt-oss-20b (14 GB, generated at the start: select with --benchmark_filter)
// every decoded token reads 3.7 GB.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <numeric>

#include "backend/cpu/cpu_backend.h"
#include "bench/peaks.h"
#include "model/checkpoint/synthetic.h"
#include "model/ops.h"
#include "tests/folders.h"

namespace nibble::bench {
namespace {

constexpr int kMaxTokens{512};

// Generates the weights separately for each run: a backend that packs experts frees originals that are not
// shared.
std::shared_ptr<const Weights> weights_of(const std::string& model) {
  return std::make_shared<const Weights>(
      model == "tiny" ? open_weights(std::filesystem::path(test::source_path("models/tiny-gpt-oss")))
                      : make_synthetic(*named_config(model), "synthetic:" + model));
}

// Runs steps of `num_tokens` after `num_before` cached positions. Every step writes the same positions.
void step(benchmark::State& state, const std::string& model, int num_before, int num_tokens) {
  const auto num_threads = static_cast<int>(state.range(0));
  const int num_pages = (num_before + num_tokens) / kPageTokens + 1;
  const auto backend =
      cpu::make(weights_of(model),
                {.num_pages = num_pages, .max_batch_tokens = kMaxTokens, .num_threads = num_threads});
  std::vector<PageId> pages;
  for (int page = 0; page < num_pages; ++page) pages.push_back(PageId{static_cast<uint32_t>(page)});
  std::vector<TokenId> tokens(std::max(num_before, num_tokens));
  std::iota(tokens.begin(), tokens.end(), 100);
  const auto feed = [&](int first, int count) {
    const SampleParams greedy;
    const OutputRow last{.token_index = count - 1, .sample = &greedy, .prompt = {}, .output = {}};
    const Run run{{tokens.data(), size_t{1} * count}, first, {pages}, {pages}, {&last, 1}};
    benchmark::DoNotOptimize(backend->step({.runs = {&run, 1}}));
  };
  feed(0, num_before);
  for (auto _ : state) feed(num_before, num_tokens);

  const Cost cost = total(step_costs(backend->config(), {}, num_tokens, num_before + num_tokens));
  const auto bytes = static_cast<double>(cost.bytes_touched());
  constexpr auto kRate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["tokens/s"] = benchmark::Counter(num_tokens, kRate);
  state.counters["bytes/s"] = benchmark::Counter(bytes, kRate);
  state.counters["of_memory"] = benchmark::Counter(bytes / measured_bandwidth(), kRate);
  state.counters["FLOP/s"] = benchmark::Counter(static_cast<double>(cost.flops), kRate);
}

void one_core_and_all(benchmark::internal::Benchmark* bench) {
  bench->ArgName("threads")->Arg(1);
  if (num_usable_cores() > 1) bench->Arg(num_usable_cores());
  bench->UseRealTime()->Repetitions(5)->ReportAggregatesOnly();
}
void on_all_cores(benchmark::internal::Benchmark* bench) {
  bench->ArgName("threads")->Arg(num_usable_cores());
  bench->UseRealTime()->Repetitions(3)->ReportAggregatesOnly();
}
BENCHMARK_CAPTURE(step, tiny_decode, "tiny", 100, 1)->Apply(one_core_and_all);
BENCHMARK_CAPTURE(step, tiny_prefill, "tiny", 1, 500)->Apply(one_core_and_all);
BENCHMARK_CAPTURE(step, gpt_oss_20b_decode, "gpt-oss-20b", 100, 1)->Apply(on_all_cores);
BENCHMARK_CAPTURE(step, gpt_oss_20b_prefill, "gpt-oss-20b", 1, 500)->Apply(on_all_cores)->Iterations(1);

}  // namespace
}  // namespace nibble::bench
