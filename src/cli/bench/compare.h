// nibble bench compare: finds the differences between two files of records that are larger than the noise.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cli/command.h"

namespace nibble::cli {

using Runs = std::vector<nlohmann::ordered_json>;

// Reads a file of concatenated runs, each as printed by `nibble bench --json`. Throws
// InputError for anything else.
Runs read_runs(const std::filesystem::path& path);

// Returns a Markdown table of the tests that both files have; the samples of all runs of a file are pooled.
// Below the table it lists what else differs: the machine, the program, its threads. Throws an InputError
// that names the first difference if the runs are not the same work (model, backend, formats of operations),
// or if they have no test in common.
std::string compare_runs(const std::string& name_a, const Runs& a, const std::string& name_b, const Runs& b);

Action define_bench_compare(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
