// How bench tells what it measured: a Markdown table that grows as tests end, as llama-bench's does, the same
// as CSV, or JSON with all samples.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "cli/measure/speed_tests.h"
#include "setup/tuning.h"

namespace nibble::cli {

// What all figures of a run have in common.
struct BenchSetup {
  std::string command_line;
  std::string model;
  size_t weight_bytes{0}, num_parameters{0};
  std::string backend;
  int num_threads{0}, max_batch_tokens{0}, num_repetitions{0};
  std::string cpu;
  std::string device;  // what the backend runs on beside it, if anything
  int num_cores{0};
  double read_bandwidth{0};      // bytes per second, measured in this run
  std::optional<Tuning> tuning;  // what the run had of nibble tune
  std::vector<KernelChoice> kernels;
  std::vector<Counter> counters;  // after all tests, warm-up included
};

std::string markdown_header();
std::string markdown_row(const BenchSetup& setup, const BenchResult& result);
std::string markdown_footer(const BenchSetup& setup);

// The table's columns, as they are, and what they were measured on. Text with a comma or a quotation mark is quoted.
std::string csv_header();
std::string csv_row(const BenchSetup& setup, const BenchResult& result);

nlohmann::ordered_json bench_json(const BenchSetup& setup, std::span<const BenchResult> results);

}  // namespace nibble::cli
