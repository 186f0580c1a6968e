// nibble profile compare: the difference between two profiles, by part of the step and by kernel.
#pragma once

#include <filesystem>
#include <string>

#include "cli/command.h"
#include "core/text/json.h"

namespace nibble::cli {

// Reads the last profile in a file of `nibble profile --json`. Profiles of other engines need only "parts"
// with "part" and "us". Throws InputError for anything else.
Json read_profile_file(const std::filesystem::path& path);

// Returns Markdown tables of parts and kernels, and a list of other differences (commit, machine, formats).
// Throws an InputError that names the first difference if the steps differ (model, tokens, depth, sequences).
std::string compare_profiles(const std::string& name_a, const Json& a, const std::string& name_b,
                             const Json& b);

Action define_profile_compare(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
