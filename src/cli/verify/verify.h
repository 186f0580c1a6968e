// nibble verify: asks this machine's device what it is, and checks every row of the kernel tables on it, each in a process of its own.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backend/kernel_check.h"
#include "cli/command.h"
#include "cli/verify/child_process.h"

namespace nibble::cli {

Action define_verify(CLI::App& command, Settings& settings);

// The result of checking one row.
struct Verdict {
  enum class Result {
    kOk,
    kWrong,    // beyond its bound
    kCrashed,  // ended by a signal, or by an error such as a failed launch
    kTimedOut,
  } result{};
  KernelFinding finding;  // where the check ran to its end
  std::string reason;     // where it did not: its last line on stderr, or the signal
  double seconds{0};
};
std::string_view name(Verdict::Result result);

// The failure of a child that came to no answer; not set where it ended by itself and `has_answered`.
struct ChildFailure {
  Verdict::Result result;
  std::string reason;
};
std::optional<ChildFailure> failure_of(const ChildResult& child, bool has_answered);

// A child writes finding_json() to stdout; its parent reads that and how the child ended with verdict_of().
std::string finding_json(std::string_view kernel, const KernelFinding& finding);
Verdict verdict_of(const ChildResult& child);

}  // namespace nibble::cli
