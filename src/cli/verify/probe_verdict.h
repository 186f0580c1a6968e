// Verdict on a probe that ran in a separate process.
#pragma once

#include <string>
#include <string_view>

#include "backend/machine_probe.h"
#include "cli/verify/child_process.h"
#include "core/text/json.h"

namespace nibble::cli {

struct ProbeVerdict {
  ProbeFinding finding;
  // Name of finding.result; "crashed" or "timed out" if the probe did not finish (finding.found says why).
  std::string result;
  double seconds{0};

  bool is_fine() const {
    return result == name(ProbeFinding::Result::kOk) || result == name(ProbeFinding::Result::kTwin) ||
           result == name(ProbeFinding::Result::kMissing);
  }
};

// The child process writes probe_json() to stdout; its parent calls probe_verdict_of().
Json probe_json(std::string_view probe, const ProbeFinding& finding);
ProbeVerdict probe_verdict_of(const ChildResult& child);

Json probe_verdict_json(std::string_view probe, const ProbeVerdict& verdict);

}  // namespace nibble::cli
