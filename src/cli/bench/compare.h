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

// Returns a Markdown table of the tests that both files contain, and a list of other differences (machine,
// program, threads). Merges the samples of all runs of a file. Throws an InputError if the runs did different
// work (model, backend, formats of operations), which names the first difference, or share no test.
std::string compare_runs(const std::string& name_a, const Runs& a, const std::string& name_b, const Runs& b);

Action define_bench_compare(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
