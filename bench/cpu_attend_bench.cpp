// Benchmarks the attention of one decoded token in a full layer of gpt-oss-20b, at depths up to 131,072, by
// number of threads. Layers alternate as in a step, so caches hold part of their data.
#include <benchmark/benchmark.h>

#include <numeric>
#include <vector>

#include "backend/cpu/activations.h"
#include "backend/cpu/attention/attend.h"
#include "bench/peaks.h"
#include "model/checkpoint/synthetic.h"

namespace nibble::bench {
namespace {

void attend(benchmark::State& state) {
  const auto depth = static_cast<int>(state.range(0)), num_threads = static_cast<int>(state.range(1));
  const auto format = state.range(2) == 8 ? Format::kE4m3 : Format::kBf16;
  Config config = *named_config("gpt-oss-20b");
  config.num_layers = depth > 8192 ? 2 : 12;  // number of full layers
  config.layer_kinds.assign(config.num_layers, LayerKind::kFull);
  config.vocab = config.num_experts = config.experts_per_token = 4;
  const int num_pages = depth / kPageTokens + 1;
  const cpu::KvCache kv_cache(config, format, num_pages);
  const cpu::Activations a = cpu::make_activations(config, 1, num_threads, {.int8 = true});
  ThreadPool pool(num_threads);
  const cpu::Machine machine{cpu::choose_kernels(cpu::isa_of("")), pool};

  std::vector<PageId> pages;
  for (int page = 0; page < num_pages; ++page) pages.push_back(PageId{static_cast<uint32_t>(page)});
  const std::vector<TokenId> tokens(1);
  const Run run{.tokens = tokens, .first_position = depth, .full = {pages}, .sliding = {}, .outputs = {}};
  const std::vector<cpu::BatchRow> rows = cpu::rows_of({.runs = {&run, 1}});
  std::vector<float> element(config.head_dim, 0.5f);
  const std::vector<float> sinks(config.num_heads);
  for (int n = 0; n < config.num_layers; ++n)
    for (int position = 0; position <= depth; ++position)
      for (int head = 0; head < config.num_kv_heads; ++head) {
        const cpu::LayerKv& kv = kv_cache.layer(n);
        element[0] = static_cast<float>(position % 7);
        kv.store(element.data(), kv.keys({pages}, position, head), position);
        kv.store(element.data(), kv.values({pages}, position, head), position);
      }
  std::iota(a.q.row(0, 0), a.q.row(0, 0) + config.head_dim, -32.0f);

  size_t layer = 0;
  for (auto _ : state) {
    cpu::attend({machine,
                 a.q,
                 rows,
                 kv_cache.layer(layer++ % config.num_layers),
                 {sinks.data(), Format::kF32, config.num_heads},
                 std::nullopt,
                 a.parts,
                 a.attended});
    benchmark::ClobberMemory();
  }
  state.counters["bytes/s"] = benchmark::Counter(
      2.0 * depth * static_cast<double>(config.num_kv_heads * num_bytes(format, config.head_dim)),
      benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK(attend)
    ->ArgNames({"depth", "threads", "kv_bits"})
    ->ArgsProduct({{256, 1024, 4096, 32768}, {1, 2, 4}, {16}})
    ->Args({4096, 4, 8})
    ->UseRealTime()
    ->Repetitions(5)
    ->ReportAggregatesOnly();

}  // namespace
}  // namespace nibble::bench
