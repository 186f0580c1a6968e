// nibble verify: every row of the kernel tables checked on this very machine, each in a process of its own.
#pragma once

#include <string>
#include <string_view>

#include "backend/kernel_check.h"
#include "cli/command.h"
#include "cli/verify/child_process.h"

namespace nibble::cli {

Action define_verify(CLI::App& command, Settings& settings);

// What became of the check of one row.
struct Verdict {
  enum class Result {
    kOk,
    kWrong,    // beyond its bound
    kCrashed,  // by a signal, or with a line that says why: an address that is not there, a launch that failed
    kTimedOut,
  } result{};
  KernelFinding finding;  // where it came to one
  std::string reason;     // where it did not: what it said, or the signal
  double seconds{0};
};
std::string_view name(Verdict::Result result);

// What a child writes to stdout, and what its parent makes of that and of its end.
std::string finding_json(std::string_view kernel, const KernelFinding& finding);
Verdict verdict_of(const ChildResult& child);

}  // namespace nibble::cli
