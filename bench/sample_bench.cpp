// Benchmarks sampling one token of 201,088 on the host, with each kind of parameters. Sampling runs once per
// token and sequence, on one core, while the model waits. The bandwidth counts the 0.8 MB of logits that must
// be read at least.
//
// `peaked` logits are like a model's: a few tokens have most of the probability. `flat` logits are the worst
// case for top_p, which needs nearly all tokens.
#include <benchmark/benchmark.h>

#include <vector>

#include "backend/sample.h"
#include "core/numbers/random.h"

namespace nibble {
namespace {

constexpr int kVocab{201088};

std::vector<float> random_logits(float spread) {
  std::vector<float> logits(kVocab);
  for (size_t v = 0; v < logits.size(); ++v) {
    double sum = 0;  // the sum of 12 uniform numbers is nearly normal, with deviation 1
    for (uint64_t i = 0; i < 12; ++i) sum += random_unit(1, v * 12 + i);
    logits[v] = static_cast<float>(sum - 6) * spread;
  }
  return logits;
}

void choose(benchmark::State& state, const SampleParams& params, float spread) {
  const std::vector<float> logits = random_logits(spread);
  std::vector<float> scratch;
  int position = 0;
  for (auto _ : state) {
    scratch = logits;
    benchmark::DoNotOptimize(sample(scratch, {.sample = &params}, position++));
  }
  state.SetBytesProcessed(state.iterations() * kVocab * static_cast<int64_t>(sizeof(float)));
}

constexpr float kPeaked{4}, kFlat{0.1f};
BENCHMARK_CAPTURE(choose, greedy, SampleParams{}, kPeaked)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(choose, temperature, SampleParams{.temperature = 1}, kPeaked)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(choose, min_p, SampleParams{.temperature = 1, .min_p = 0.05f}, kPeaked)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(choose, top_k_50, SampleParams{.temperature = 1, .top_k = 50}, kPeaked)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(choose, top_p_095, SampleParams{.temperature = 1, .top_p = 0.95f}, kPeaked)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(choose, top_p_095_flat, SampleParams{.temperature = 1, .top_p = 0.95f}, kFlat)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(choose, greedy_20_logprobs, SampleParams{.num_logprobs = 20}, kPeaked)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace nibble
