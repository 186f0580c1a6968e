// Verdict on a row of the kernel table that was checked in a separate process.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backend/kernel_check.h"
#include "cli/verify/child_process.h"
#include "core/json.h"

namespace nibble::cli {

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

// failure_of() returns nullopt for a normal exit if `has_answered`: the output is a complete answer.
struct ChildFailure {
  Verdict::Result result;
  std::string reason;
};
std::optional<ChildFailure> failure_of(const ChildResult& child, bool has_answered);

// The child writes finding_json() to stdout. Its parent passes the child's output and end to verdict_of().
std::string finding_json(std::string_view kernel, const KernelFinding& finding);
Verdict verdict_of(const ChildResult& child);

nlohmann::ordered_json verdict_json(std::string_view backend, std::string_view kernel,
                                    const Verdict& verdict);

}  // namespace nibble::cli
