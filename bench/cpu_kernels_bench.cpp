// Benchmarks the dot kernels at the shapes of gpt-oss-20b, on all cores and with cold weights: each pass
// reads another part of an array larger than the caches. Also measures the cost of dispatching work to
// threads.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <vector>

#include "backend/cpu/kernel_table.h"
#include "backend/cpu/q8.h"
#include "bench/peaks.h"

namespace nibble::bench {
namespace {

struct Shape {
  const char* name;
  Format weights;
  int rows, cols;
};
constexpr Shape kShapes[]{
    {"qkv", Format::kBf16, 5120, 2880},      //
    {"project", Format::kBf16, 2880, 4096},  //
    {"qkv", Format::kE4m3, 5120, 2880},      // with --fp8-layers
    {"project", Format::kE4m3, 2880, 4096},  //
    {"qkv", Format::kMxfp4, 5120, 2880},     // with --mxfp4-layers
    {"up", Format::kMxfp4, 5760, 2880},      // one expert
    {"down", Format::kMxfp4, 2880, 2880},    //
    {"qkv", Format::kQ8_0, 5120, 2880},      // in GGUF files
    {"project", Format::kQ8_0, 2880, 4096},  //
};

// Returns MXFP4 scales like those of a model. Arbitrary bytes would give subnormal numbers, which are slow.
const uint8_t* cold_scales(size_t matrix, size_t scale_bytes) {
  static const Buffer scales = [] {
    Buffer buffer(kColdBytes / 16);
    for (size_t i = 0; i < buffer.bytes(); ++i) buffer.as<uint8_t>()[i] = static_cast<uint8_t>(120 + i % 8);
    return buffer;
  }();
  return scales.as<uint8_t>() + matrix * scale_bytes;
}

// Reports the bytes and operations of a pass over one matrix.
void report(benchmark::State& state, size_t num_bytes, size_t num_elements, int num_tokens) {
  constexpr auto kRate = benchmark::Counter::kIsIterationInvariantRate;
  const auto bytes = static_cast<double>(num_bytes);
  state.counters["bytes/s"] = benchmark::Counter(bytes, kRate);
  state.counters["of_memory"] = benchmark::Counter(bytes / measured_bandwidth(), kRate);
  state.counters["FLOP/s"] = benchmark::Counter(2.0 * static_cast<double>(num_elements) * num_tokens, kRate);
}

void dot(benchmark::State& state, const cpu::DotRow& row, const Shape& shape) {
  const auto num_tokens = static_cast<int>(state.range(0));
  const size_t num_elements = size_t{1} * shape.rows * shape.cols;
  const size_t scale_bytes = shape.weights == Format::kMxfp4  ? num_elements / 32
                             : shape.weights == Format::kE4m3 ? size_t{4} * shape.rows
                                                              : 0;
  const size_t data_bytes = matrix_bytes(shape.weights, shape.rows, shape.cols) - scale_bytes;
  const size_t matrix_bytes = (data_bytes + scale_bytes + 63) / 64 * 64;
  const size_t num_matrices = kColdBytes / matrix_bytes;

  std::vector<float> activations(size_t{1} * num_tokens * shape.cols, 0.5f);
  std::vector<const float*> x;
  for (int t = 0; t < num_tokens; ++t) x.push_back(&activations[size_t{1} * t * shape.cols]);
  std::vector<float> y(size_t{1} * num_tokens * shape.rows);

  constexpr int kPanelRows{32};
  // Continues across runs: the matrices of a short run would still be warm in the next one.
  static size_t next = 0;
  for (auto _ : state) {
    const size_t index = next++ % num_matrices;
    const std::byte* matrix = cold_bytes().data() + index * matrix_bytes;
    all_cores().for_each(shape.rows / kPanelRows, [&](ptrdiff_t panel, int) {
      const int first_row = static_cast<int>(panel) * kPanelRows;
      row.kernel({matrix, cold_scales(index, scale_bytes),
                  reinterpret_cast<const float*>(matrix + data_bytes), shape.cols, first_row, kPanelRows,
                  x.data(), num_tokens, y.data() + first_row, shape.rows});
    });
    benchmark::ClobberMemory();
  }
  report(state, data_bytes + scale_bytes, num_elements, num_tokens);
}

// The same for experts in strips with int8 activations.
void strip(benchmark::State& state, const cpu::StripRow& row, const Shape& shape) {
  const auto num_tokens = static_cast<int>(state.range(0));
  const size_t num_elements = size_t{1} * shape.rows * shape.cols;
  const bool is_q8_0 = row.format == Format::kQ8_0;
  const size_t scale_bytes = num_elements / (is_q8_0 ? 16 : 32);
  const size_t data_bytes = num_elements / (is_q8_0 ? 1 : 2),
               matrix_bytes = (data_bytes + scale_bytes + 63) / 64 * 64;
  const size_t num_matrices = kColdBytes / matrix_bytes, row_blocks = size_t{1} * shape.cols / cpu::kBlock;

  const std::vector<float> half(cpu::kBlock, 0.5f);
  const std::vector<cpu::Q8Block> activations(size_t{1} * num_tokens * row_blocks, cpu::to_q8(half.data()));
  std::vector<const cpu::Q8Block*> x;
  for (int t = 0; t < num_tokens; ++t) x.push_back(&activations[t * row_blocks]);
  std::vector<float> y(size_t{1} * num_tokens * shape.rows);

  constexpr int kPanelRows{32};
  static size_t next = 0;
  for (auto _ : state) {
    const size_t index = next++ % num_matrices;
    const auto* matrix = cold_bytes().as<uint8_t>() + index * matrix_bytes;
    all_cores().for_each(shape.rows / kPanelRows, [&](ptrdiff_t panel, int) {
      const int first_row = static_cast<int>(panel) * kPanelRows;
      row.kernel({matrix, cold_scales(index, scale_bytes), shape.cols, first_row, kPanelRows, x.data(),
                  num_tokens, y.data() + first_row, shape.rows});
    });
    benchmark::ClobberMemory();
  }
  report(state, data_bytes + scale_bytes, num_elements, num_tokens);
}

// One empty item per thread: the minimal cost of dispatching work to threads.
void hand_over(benchmark::State& state) {
  for (auto _ : state)
    all_cores().for_each(all_cores().num_threads(),
                         [](ptrdiff_t item, int) { benchmark::DoNotOptimize(item); });
}

void with_tokens(benchmark::internal::Benchmark* bench) {
  bench->ArgName("tokens")->Arg(1)->Arg(4)->Arg(24)->UseRealTime()->Repetitions(5)->ReportAggregatesOnly();
}

const int kRegistered = [] {
  for (const cpu::DotRow& row : cpu::dot_rows())
    for (const Shape& shape : kShapes) {
      if (!cpu::is_available(row.isa) || row.format != shape.weights) continue;
      benchmark::RegisterBenchmark(fmt::format("{}/{}", row.name, shape.name).c_str(),
                                   [&row, &shape](benchmark::State& state) { dot(state, row, shape); })
          ->Apply(with_tokens);
    }
  for (const cpu::StripRow& row : cpu::strip_rows())
    for (const Shape& shape : kShapes) {
      if (!cpu::is_available(row.isa) || row.format != shape.weights) continue;
      benchmark::RegisterBenchmark(fmt::format("{}/{}", row.name, shape.name).c_str(),
                                   [&row, &shape](benchmark::State& state) { strip(state, row, shape); })
          ->Apply(with_tokens);
    }
  return 0;
}();
BENCHMARK(hand_over)->UseRealTime()->Repetitions(5)->ReportAggregatesOnly();

}  // namespace
}  // namespace nibble::bench
