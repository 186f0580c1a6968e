// Verdict on a row of the kernel table that was checked in a separate process.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backend/kernel_check.h"
#include "cli/verify/child_process.h"
#include "core/text/json.h"

namespace nibble::cli {

struct Verdict {
  enum class Result {
    kOk,
    kWrong,    // the error of a result exceeds its bound
    kCrashed,  // ended by a signal, or by an error such as a failed launch
    kTimedOut,
  } result{};
  KernelFinding finding;  // set if the check completed
  std::string reason;     // set if the check did not complete: last line of stderr, or the signal
  double seconds{0};
};
std::string_view name(Verdict::Result result);

// Returns the verdict on a check without a result; nullopt after a normal exit with one (`has_answered`).
std::optional<Verdict> failure_of(const ChildResult& child, bool has_answered);

// The child writes finding_json() to stdout. Its parent passes output and exit status to verdict_of().
std::string finding_json(std::string_view kernel, const KernelFinding& finding);
Verdict verdict_of(const ChildResult& child);

Json verdict_json(std::string_view backend, std::string_view kernel, const Verdict& verdict);

}  // namespace nibble::cli
