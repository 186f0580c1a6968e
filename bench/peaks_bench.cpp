// Measures the peaks of this machine: bytes read from memory, and multiply-adds in registers.
#include <benchmark/benchmark.h>

#include "backend/cpu/kernel_table.h"
#include "bench/peaks.h"

#if NIBBLE_X86
#include <immintrin.h>
#endif

namespace nibble::bench {
namespace {

void read_memory(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  const Buffer& bytes = cold_bytes();
  for (auto _ : state) state.SetIterationTime(static_cast<double>(kColdBytes) / read_pass(pool, bytes));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kColdBytes));
}

#if NIBBLE_X86
constexpr int kChains{12};  // independent chains: a latency of 4 cycles times two per cycle, and a few more
constexpr int kRounds{1 << 14};

__attribute__((target("avx512f"))) float multiply_add_avx512() {
  __m512 sums[kChains];
  for (__m512& sum : sums) sum = _mm512_set1_ps(1);
  const __m512 factor = _mm512_set1_ps(0.5f);
  for (int round = 0; round < kRounds; ++round)
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, factor, factor);
  float total = 0;
  for (const __m512 sum : sums) total += _mm512_cvtss_f32(sum);
  return total;
}

__attribute__((target("avx2,fma"))) float multiply_add_avx2() {
  __m256 sums[kChains];
  for (__m256& sum : sums) sum = _mm256_set1_ps(1);
  const __m256 factor = _mm256_set1_ps(0.5f);
  for (int round = 0; round < kRounds; ++round)
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, factor, factor);
  float total = 0;
  for (const __m256 sum : sums) total += _mm256_cvtss_f32(sum);
  return total;
}

void multiply_add(benchmark::State& state, cpu::Isa isa) {
  if (!cpu::is_available(isa)) return state.SkipWithError("this machine does not have it");
  const bool is_wide = isa == cpu::Isa::kAvx512;
  ThreadPool pool(static_cast<int>(state.range(0)));
  constexpr int kItems{64};
  for (auto _ : state)
    pool.for_each(kItems, [&](ptrdiff_t, int) {
      benchmark::DoNotOptimize(is_wide ? multiply_add_avx512() : multiply_add_avx2());
    });
  const double lanes = is_wide ? 16 : 8;
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * lanes * kChains * kRounds * kItems,
                                                 benchmark::Counter::kIsIterationInvariantRate);
}
#endif

void threads(benchmark::internal::Benchmark* bench) {
  bench->ArgName("threads")->Arg(1);
  if (num_usable_cores() > 1) bench->Arg(num_usable_cores());
  bench->Repetitions(5)->ReportAggregatesOnly();
}

BENCHMARK(read_memory)->Apply(threads)->UseManualTime();
#if NIBBLE_X86
BENCHMARK_CAPTURE(multiply_add, avx2, cpu::Isa::kAvx2)->Apply(threads)->UseRealTime();
BENCHMARK_CAPTURE(multiply_add, avx512, cpu::Isa::kAvx512)->Apply(threads)->UseRealTime();
#endif

}  // namespace
}  // namespace nibble::bench
