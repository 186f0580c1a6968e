// The verdict on a probe that ran in a process of its own.
#pragma once

#include <string>
#include <string_view>

#include "backend/machine_probe.h"
#include "cli/verify/child_process.h"
#include "core/json.h"

namespace nibble::cli {

struct ProbeVerdict {
  ProbeFinding finding;
  // The name of the finding's result; "crashed" or "timed out", where there is none, and finding.found is the reason.
  std::string result;
  double seconds{0};

  bool is_fine() const {
    return result == name(ProbeFinding::Result::kOk) || result == name(ProbeFinding::Result::kTwin) ||
           result == name(ProbeFinding::Result::kMissing);
  }
};

// A child writes probe_json() to stdout; its parent reads that and how the child ended with probe_verdict_of().
nlohmann::ordered_json probe_json(std::string_view probe, const ProbeFinding& finding);
ProbeVerdict probe_verdict_of(const ChildResult& child);

// As a report has it.
nlohmann::ordered_json probe_verdict_json(std::string_view probe, const ProbeVerdict& verdict);

}  // namespace nibble::cli
