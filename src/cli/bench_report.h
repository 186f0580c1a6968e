// How bench tells what it measured: a Markdown table that grows as tests end, as llama-bench's does, or JSON with all samples.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "cli/bench_tests.h"

namespace nibble::cli {

// What all figures of a run have in common.
struct BenchSetup {
  std::string command_line;
  std::string model;
  size_t weight_bytes{0}, num_parameters{0};
  std::string backend;
  int num_threads{0}, max_batch_tokens{0}, num_repetitions{0};
  std::string cpu;
  int num_cores{0};
  double read_bandwidth{0};  // bytes per second, measured in this run
  std::vector<KernelChoice> kernels;
  std::vector<Counter> counters;  // after all tests, warm-up included
};

std::string markdown_header();
std::string markdown_row(const BenchSetup& setup, const BenchResult& result);
std::string markdown_footer(const BenchSetup& setup);

nlohmann::ordered_json bench_json(const BenchSetup& setup, std::span<const BenchResult> results);

}  // namespace nibble::cli
