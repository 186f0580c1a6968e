// Benchmarks choosing one token of 201,088 on the GPU, for each way of choosing. Launches are queued one
// after another, as they follow unembed(). The logits are those of sample_bench.cpp: `peaked` ones are like a
// model's, `flat` ones are the worst case of top_p.
#include <benchmark/benchmark.h>

#include <vector>

#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/cuda_options.h"
#include "backend/cuda/input/sample_input.h"
#include "backend/cuda/sample/args.h"
#include "backend/cuda/sample/sample_rows.h"
#include "core/numbers/random.h"

namespace nibble::cuda {
namespace {

constexpr int kVocab{201088}, kLaunches{50};

std::vector<float> random_logits(float spread) {
  std::vector<float> logits(kVocab);
  for (size_t v = 0; v < logits.size(); ++v) {
    double sum = 0;  // the sum of 12 uniform numbers is close to normal, with deviation 1
    for (uint64_t i = 0; i < 12; ++i) sum += random_unit(1, v * 12 + i);
    logits[v] = static_cast<float>(sum - 6) * spread;
  }
  return logits;
}

void choose(benchmark::State& state, const SampleParams& params, float spread, int num_rows) {
  if (const std::string missing = why_no_device(); !missing.empty())
    return state.SkipWithError(missing.c_str());
  const OwnedStream stream;
  const std::vector<float> row_logits = random_logits(spread);
  const auto count = static_cast<size_t>(num_rows);
  const DeviceBuffer logits(count * kVocab * sizeof(float)), rows(count * sizeof(SampleRow)),
      results(count * sizeof(SampleResult)), best(count * kBestCtas * sizeof(uint64_t)),
      tickets(count * sizeof(unsigned));
  const PinnedBuffer host_rows(rows.bytes());
  const std::vector<TokenId> output{1, 2, 3, 3};
  SampleRows sample_rows(kVocab);
  sample_rows.start(host_rows.as<SampleRow>());
  for (int row = 0; row < num_rows; ++row) {
    sample_rows.add({.sample = &params, .prompt = {}, .output = output}, SamplePosition::at(row));
    check(cudaMemcpy(logits.as<float>() + row * kVocab, row_logits.data(), kVocab * sizeof(float),
                     cudaMemcpyDefault),
          "copying logits");
  }
  sample_rows.upload(stream);
  check(cudaMemcpyAsync(rows.as<void>(), host_rows.as<void>(), rows.bytes(), cudaMemcpyDefault, stream),
        "copying rows");
  check(cudaMemsetAsync(tickets.as<void>(), 0, tickets.bytes(), stream), "clearing tickets");
  prepare_sample();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording");
  for (int launch = 0; launch < kLaunches; ++launch)
    sample({stream, target_of(device_caps(), {})}, num_rows,
           {rows.as<SampleRow>(), /*input=*/nullptr, logits.as<float>(), kVocab, sample_rows.are_greedy(),
            best.as<uint64_t>(), tickets.as<unsigned>(), results.as<SampleResult>()});
  check(cudaStreamEndCapture(stream, &graph), "recording");
  check(cudaGraphInstantiate(&executable, graph, 0), "preparing");
  cudaEvent_t start = nullptr, end = nullptr;
  check(cudaEventCreate(&start), "making an event");
  check(cudaEventCreate(&end), "making an event");
  for (auto _ : state) {
    check(cudaEventRecord(start, stream), "measuring");
    check(cudaGraphLaunch(executable, stream), "measuring");
    check(cudaEventRecord(end, stream), "measuring");
    stream.wait();
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start, end), "measuring");
    state.SetIterationTime(milliseconds / 1e3 / kLaunches);
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

constexpr float kPeaked{4}, kFlat{0.1f};
#define NIBBLE_CHOOSE(name, params, spread, rows)       \
  BENCHMARK_CAPTURE(choose, name, params, spread, rows) \
      ->Unit(benchmark::kMicrosecond)                   \
      ->UseManualTime()                                 \
      ->Iterations(40)
NIBBLE_CHOOSE(greedy, (SampleParams{}), kPeaked, 1);
NIBBLE_CHOOSE(temperature, (SampleParams{.temperature = 1}), kPeaked, 1);
NIBBLE_CHOOSE(min_p, (SampleParams{.temperature = 1, .min_p = 0.05f}), kPeaked, 1);
NIBBLE_CHOOSE(top_k_50, (SampleParams{.temperature = 1, .top_k = 50}), kPeaked, 1);
NIBBLE_CHOOSE(top_p_095, (SampleParams{.temperature = 1, .top_p = 0.95f}), kPeaked, 1);
NIBBLE_CHOOSE(top_p_095_flat, (SampleParams{.temperature = 1, .top_p = 0.95f}), kFlat, 1);
NIBBLE_CHOOSE(top_k_100000_top_p_095_flat, (SampleParams{.temperature = 1, .top_k = 100000, .top_p = 0.95f}),
              kFlat, 1);
NIBBLE_CHOOSE(top_k_50_top_p_095_min_p,
              (SampleParams{.temperature = 1, .top_k = 50, .top_p = 0.95f, .min_p = 0.05f}), kPeaked, 1);
NIBBLE_CHOOSE(penalties, (SampleParams{.temperature = 1, .repetition_penalty = 1.1f, .presence_penalty = 1}),
              kPeaked, 1);
NIBBLE_CHOOSE(greedy_20_logprobs, (SampleParams{.num_logprobs = 20}), kPeaked, 1);
NIBBLE_CHOOSE(greedy_8_rows, (SampleParams{}), kPeaked, 8);
NIBBLE_CHOOSE(top_p_095_8_rows, (SampleParams{.temperature = 1, .top_p = 0.95f}), kPeaked, 8);
NIBBLE_CHOOSE(greedy_32_rows, (SampleParams{}), kPeaked, 32);
NIBBLE_CHOOSE(top_p_095_32_rows, (SampleParams{.temperature = 1, .top_p = 0.95f}), kPeaked, 32);

}  // namespace
}  // namespace nibble::cuda
