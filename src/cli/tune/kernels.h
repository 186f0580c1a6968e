// nibble tune on a GPU: the kernels of its table, timed with other numbers of rows than those that the table gives them. Nothing is
// changed by that: the table is compiled in, and what is printed is for whoever edits it.
#pragma once

#include <string>
#include <vector>

#include "backend/kernel_trials.h"
#include "cli/measure/run_record.h"
#include "setup/model.h"

namespace nibble::cli {

// On both sides of each threshold of the table, and between them.
inline constexpr const char* kTunedRows{"2,4,8,12,16,24,32,48,64,96,128,192,256,384,512,768,1024,2048"};
inline constexpr int kMostTunedRows{8192};

struct TuneKernelsOptions {
  std::vector<int> num_rows;  // from 2 to kMostTunedRows
  int num_repetitions{5};
  std::string record_name;  // of the record, for the rows that are printed
};

// On the setup's backend, which has `try_kernels`. Throws InputError.
RunOutput tune_kernels(const TuneKernelsOptions& options, const Model& model, const ResolvedSettings& setup,
                       const std::string& command_line);

// Microseconds by number of rows and kernel, a table for each operation, and what was refused.
std::string trials_text(const KernelTrials& trials);
// Rows in the form of kernel_table.cpp, with the columns that tuning is about.
std::string table_rows_text(const KernelTrials& trials, const std::string& record_name);

}  // namespace nibble::cli
