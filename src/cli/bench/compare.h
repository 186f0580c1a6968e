// nibble bench --compare: which differences between two files of records are beyond the noise.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/json.h"

namespace nibble::cli {

using Runs = std::vector<nlohmann::ordered_json>;

// The runs that a file holds, what `nibble bench --json` printed, one behind the other. Throws InputError for anything else.
Runs read_runs(const std::filesystem::path& path);

// A Markdown table of all tests that both have, with the samples of all runs of a file together, and below it what else differs: the
// machine, the program, its threads. Throws InputError that names the first difference where the runs are not the same work: model,
// backend, formats of operations; or where they have no test in common.
std::string compare_runs(const std::string& name_a, const Runs& a, const std::string& name_b, const Runs& b);

}  // namespace nibble::cli
