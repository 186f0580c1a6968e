// nibble bench compare: finds differences between two files of records that exceed the noise.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/command.h"

namespace nibble::cli {

using Runs = std::vector<Json>;

// Reads concatenated runs in the form of `nibble bench --json`. Throws InputError for anything else.
Runs read_runs(const std::filesystem::path& path);

struct ComparedRuns {
  std::string text;  // Markdown: a table of the tests in both files, and a list of other differences
  // names of the tests in which file B is slower, and of tests with too few samples
  std::vector<std::string> slower, undecided;
};

// Compares the tests that both files contain, and lists other differences (machine, program, threads). Merges
// the samples of all runs of a file. Throws InputError if the runs share no test or did different work
// (model, backend, formats of operations); the message names the first difference.
ComparedRuns compare_runs(const std::string& name_a, const Runs& a, const std::string& name_b, const Runs& b);

// Returns the exit code of --fail-on slower, and prints the slower tests to stderr. Throws InputError if a
// test has too few samples: such a test can never fail.
int exit_code_if_slower(const ComparedRuns& compared);

}  // namespace nibble::cli
