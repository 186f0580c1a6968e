// Benchmarks the cost of a step outside the model: taking requests, planning, pages, detokenizing, stop
// rules, events. The model answers at once, and the engine decodes a given number of sequences. `other_us` is
// the engine's time per step without the backend. Target: below 100 us for 64 sequences; a step of a real
// model takes milliseconds.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

#include "core/random.h"
#include "engine/engine.h"
#include "tests/folders.h"

namespace nibble {
namespace {

constexpr int kNumPrompt{200}, kNumOutput{1000};

class InstantBackend : public Backend {
 public:
  explicit InstantBackend(int vocab) {
    config_.vocab = vocab;
    config_.window = 128;
    config_.max_context = 2 * (kNumPrompt + kNumOutput);
  }
  std::string_view name() const override { return "instant"; }
  const Config& config() const override { return config_; }
  std::vector<KernelChoice> kernels() const override { return {}; }
  StepResult step(const Batch& batch) override {
    StepResult result;
    for (const Run& run : batch.runs)
      for (size_t i = 0; i < run.outputs.size(); ++i)
        result.outputs.push_back({.token = static_cast<TokenId>(random_bits(1, num_tokens_++) % 4000)});
    return result;
  }

 private:
  Config config_;
  uint64_t num_tokens_{0};
};

void step(benchmark::State& state) {
  static const Tokenizer tokenizer = Tokenizer::open(test::source_path("models/tiny-gpt-oss/tokenizer.json"));
  const auto num_sequences = static_cast<int>(state.range(0));
  std::vector<double> decode_us;  // of the steps in which all sequences decode
  InstantBackend backend(tokenizer.num_tokens());
  EngineOptions options;
  options.num_pages = num_sequences * 64;
  options.max_batch_tokens = 512;
  options.max_sequences = num_sequences;
  options.on_step = [&](const StepReport& report) {
    if (report.num_sequences == num_sequences && report.num_tokens == num_sequences)
      decode_us.push_back(report.other_seconds * 1e6);
  };
  for (auto _ : state) {
    Engine engine(backend, tokenizer, options);
    for (int i = 0; i < num_sequences; ++i) {
      GenerationRequest request;
      for (uint64_t p = 0; p < kNumPrompt; ++p)
        request.prompt.push_back(static_cast<TokenId>(random_bits(static_cast<uint64_t>(i) + 2, p) % 4000));
      request.stop.max_tokens = kNumOutput;
      request.stop.strings = {"no such text"};
      engine.submit(std::move(request));
    }
    for (int num_ended = 0; num_ended < num_sequences;) {
      const std::optional<Event> event = engine.wait_event(std::chrono::milliseconds(1000));
      num_ended += event && std::holds_alternative<FinishedEvent>(*event);
    }
  }
  std::sort(decode_us.begin(), decode_us.end());
  const auto at = [&](double share) {
    return decode_us[static_cast<size_t>(share * static_cast<double>(decode_us.size() - 1))];
  };
  state.counters["steps"] = static_cast<double>(decode_us.size());
  state.counters["other_us_p50"] = at(0.5);
  state.counters["other_us_p99"] = at(0.99);
}
BENCHMARK(step)->ArgName("sequences")->Arg(1)->Arg(16)->Arg(64)->Arg(256)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace nibble
