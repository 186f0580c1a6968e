// nibble tune on a GPU: times each kernel for several numbers of rows (tokens of a step), also for numbers at
// which the kernel table chooses another kernel. If another kernel is faster than the table's, the file of
// --tuning gets the numbers of rows for which it is. Also prints rows for developers who edit the table.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/kernel_trials.h"
#include "cli/measure/run_record.h"
#include "setup/machine/tuning.h"
#include "setup/model/model.h"
#include "setup/settings/resolved_settings.h"

namespace nibble::cli {

// Default numbers of rows: on both sides of the kernel table's thresholds, and between them.
inline constexpr const char* kTunedRows{"2,4,8,12,16,24,32,48,64,96,128,192,256,384,512,768,1024,2048"};

struct TuneKernelsOptions {
  std::vector<int> num_rows;  // each from 2 to kMostTunedRows
  int num_repetitions{5};
  std::string record_name;  // file name of the record, cited as the source of printed rows
};

struct TunedKernels {
  RunOutput output;
  Tuning tuning;  // only gpu_steps is set
};

// The backend in `setup` must have the function `try_kernels`. Throws InputError.
TunedKernels tune_kernels(const TuneKernelsOptions& options, const Model& model,
                          const ResolvedSettings& setup, const std::string& command_line);

// Returns a table per operation (microseconds by number of rows and kernel), and the refused trials.
std::string trials_text(const KernelTrials& trials);
// Lists the sizes of steps for which tuning chose other kernels than the table, one range per line.
std::string tuned_steps_text(std::span<const TunedSteps> steps);
// Returns rows to paste into kernel_table.cpp, with only the columns that tuning affects.
std::string table_rows_text(const KernelTrials& trials, const std::string& record_name);

}  // namespace nibble::cli
