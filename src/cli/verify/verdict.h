// The verdict on a kernel whose check ran in a separate process.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backend/kernel_check.h"
#include "cli/verify/child_process.h"
#include "core/json.h"

namespace nibble::cli {

// The result of checking one row.
struct Verdict {
  enum class Result {
    kOk,
    kWrong,    // an error exceeds its bound
    kCrashed,  // ended by a signal, or by an error such as a failed kernel launch
    kTimedOut,
  } result{};
  KernelFinding finding;  // set if the check completed
  std::string reason;     // set if the check did not complete: last line of stderr, or the signal
  double seconds{0};
};
std::string_view name(Verdict::Result result);

// Failure of a child. failure_of() returns nullopt if the child exited normally and `has_answered`, which
// means that its output is a complete answer.
struct ChildFailure {
  Verdict::Result result;
  std::string reason;
};
std::optional<ChildFailure> failure_of(const ChildResult& child, bool has_answered);

// A child writes finding_json() to stdout. Its parent passes that, and how the child ended, to verdict_of().
std::string finding_json(std::string_view kernel, const KernelFinding& finding);
Verdict verdict_of(const ChildResult& child);

// Returns the entry for the report.
nlohmann::ordered_json verdict_json(std::string_view backend, std::string_view kernel,
                                    const Verdict& verdict);

}  // namespace nibble::cli
