// Benchmarks the cost of a step outside the model: taking requests, planning, pages, detokenizing, stop
// rules, events. The model answers at once, and the engine decodes a given number of sequences. `host_us` is
// the time of the engine's thread per step outside the backend, measured between two launches; `cpu_us` is
// its CPU time, which other programs on the machine disturb less. `ahead`: the next step is launched before
// the tokens of the current one are known, as on CUDA. Target: below 60 us for 256 sequences; a step of a
// real model takes milliseconds.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/numbers/random.h"
#include "engine/engine.h"
#include "tests/folders.h"

namespace nibble {
namespace {

constexpr int kNumPrompt{200}, kNumOutput{1000};

struct HostTime {
  double us, cpu_us;
};

HostTime thread_time() {
  timespec cpu{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  const std::chrono::duration<double, std::micro> now = std::chrono::steady_clock::now().time_since_epoch();
  return {now.count(), 1e6 * static_cast<double>(cpu.tv_sec) + 1e-3 * static_cast<double>(cpu.tv_nsec)};
}

class InstantBackend : public Backend {
 public:
  InstantBackend(int vocab, int steps_ahead) : steps_ahead_(steps_ahead) {
    config_.vocab = vocab;
    config_.window = 128;
    config_.max_context = 2 * (kNumPrompt + kNumOutput);
  }
  std::string_view name() const override { return "instant"; }
  const Config& config() const override { return config_; }
  std::vector<KernelChoice> kernels() const override { return {}; }
  int steps_ahead() const override { return steps_ahead_; }
  StepResult step(const Batch& batch) override {
    StepResult result;
    for (const Run& run : batch.runs)
      for (size_t i = 0; i < run.outputs.size(); ++i)
        result.outputs.push_back({.token = static_cast<TokenId>(random_bits(1, num_tokens_++) % 4000)});
    return result;
  }
  void launch(const Batch& batch) override {
    stop_clock();
    size_t num_rows = 0;
    for (const Run& run : batch.runs) num_rows += run.tokens.size();
    const bool is_decode = num_rows == batch.runs.size();
    if (is_decode && num_decoding_ == num_rows) host_[num_rows].push_back(since_launch_);
    num_decoding_ = is_decode ? num_rows : 0;
    launched_.push_back(step(batch));
    since_launch_ = {};
    started_ = thread_time();
  }
  StepResult wait() override {
    stop_clock();
    StepResult result = std::move(launched_.front());
    launched_.pop_front();
    started_ = thread_time();
    return result;
  }
  // For each step in which `num_sequences` sequences decoded, as in the step before it: the time outside this
  // backend since that step's launch.
  std::span<const HostTime> host_times(int num_sequences) {
    return host_[static_cast<size_t>(num_sequences)];
  }

 private:
  void stop_clock() {
    const HostTime now = thread_time();
    since_launch_.us += now.us - started_.us;
    since_launch_.cpu_us += now.cpu_us - started_.cpu_us;
  }

  Config config_;
  int steps_ahead_;
  uint64_t num_tokens_{0};
  std::deque<StepResult> launched_;
  size_t num_decoding_{0};
  HostTime started_{}, since_launch_{};  // when a call of this backend last returned; the time outside it
  std::map<size_t, std::vector<HostTime>> host_;
};

void report(benchmark::State& state, const std::string& name, std::span<const HostTime> times,
            double HostTime::*us) {
  std::vector<double> sorted;
  for (const HostTime& time : times) sorted.push_back(time.*us);
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [percentile, share] : {std::pair("_p10", 0.1), {"_p50", 0.5}, {"_p99", 0.99}})
    state.counters[name + percentile] =
        sorted.at(static_cast<size_t>(share * static_cast<double>(sorted.size() - 1)));
}

void step(benchmark::State& state) {
  static const Tokenizer tokenizer = Tokenizer::open(test::source_path("models/tiny-gpt-oss/tokenizer.json"));
  const auto num_sequences = static_cast<int>(state.range(0));
  InstantBackend backend(tokenizer.num_tokens(), static_cast<int>(state.range(1)));
  EngineOptions options;
  options.num_pages = num_sequences * 64;
  options.max_batch_tokens = num_sequences + 512;
  options.max_sequences = num_sequences;
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
      for (const Event& event : engine.wait_events(std::chrono::milliseconds(1000)))
        num_ended += std::holds_alternative<FinishedEvent>(event);
    }
  }
  const std::span times = backend.host_times(num_sequences);
  report(state, "host_us", times, &HostTime::us);
  report(state, "cpu_us", times, &HostTime::cpu_us);
  state.counters["steps"] = static_cast<double>(times.size());
}
BENCHMARK(step)
    ->ArgNames({"sequences", "ahead"})
    ->ArgsProduct({{1, 64, 256, 512}, {0, 1}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace nibble
