// Reports a bench run: as JSON with all samples, as CSV, and as text below the table (table.h).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "cli/measure/coherence.h"
#include "cli/measure/plausibility.h"
#include "cli/measure/run_record.h"
#include "cli/measure/sample_statistics.h"
#include "cli/measure/speed_tests.h"
#include "core/text/json.h"
#include "setup/machine/tuning.h"

namespace nibble::cli {

struct BenchSetup {
  RunRecord record;
  std::string preset_run{};  // preset and run, such as "spark: grid-bf16"; empty: no preset
  std::string model;
  size_t weight_bytes{0}, num_parameters{0};
  std::string backend;
  int num_threads{0}, max_batch_tokens{0}, num_repetitions{0};
  double read_bandwidth{0};      // bytes per second, measured in this run
  std::optional<Tuning> tuning;  // tuning used by the run
  std::vector<KernelLaunches> launches{};
  std::vector<Counter> counters;  // read after all tests: warm-up steps are counted too
  Coherence coherence{};          // the model's answer to a question, after all tests

  Reuse reuse() const { return {weight_bytes, record.machine.backend_cache_bytes()}; }
};

// Results of one test. Bytes and operations per second follow from the mean speed of the repetitions.
struct Figures {
  SampleStatistics speed;  // tokens per second
  double bytes_per_second{0}, flops_per_second{0};
  double share{0};   // bytes_per_second / read bandwidth
  std::string note;  // reasons to doubt these figures, separated by commas; empty if none
};
Figures figures_of(const BenchSetup& setup, const BenchResult& result);

std::string markdown_footer(const BenchSetup& setup);

// Return the header of a CSV table and a row of it. A row has a test's figures, and the machine, program and
// settings.
std::string csv_header();
std::string csv_row(const BenchSetup& setup, const BenchResult& result);

Json bench_json(const BenchSetup& setup, std::span<const BenchResult> results);

}  // namespace nibble::cli
