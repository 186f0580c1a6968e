// nibble bench compare: finds differences between two files of records that are larger than the noise.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cli/command.h"

namespace nibble::cli {

using Runs = std::vector<nlohmann::ordered_json>;

// Reads concatenated runs, each as printed by `nibble bench --json`. Throws InputError for anything else.
Runs read_runs(const std::filesystem::path& path);

// Returns a Markdown table of the tests in both files, with the samples of all runs of a file pooled, and a
// list of what else differs (machine, program, threads). Throws an InputError with the first difference if
// the runs are not the same work (model, backend, formats of operations), or if they share no test.
std::string compare_runs(const std::string& name_a, const Runs& a, const std::string& name_b, const Runs& b);

Action define_bench_compare(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
