// The report of `nibble verify`: for issues, and for later lookups of what is proven (setup/verified.h).
#pragma once

#include <string>

#include "core/json.h"
#include "setup/machine.h"

namespace nibble::cli {

// `probes` and `kernels`: arrays of verdicts.
nlohmann::ordered_json report_json(const Machine& machine, nlohmann::ordered_json probes,
                                   nlohmann::ordered_json kernels);

std::string report_text(const nlohmann::ordered_json& report);

// Writes the report to verified_path(). Returns empty, or the reason of a failure.
std::string keep_report(const DeviceFacts& device, const nlohmann::ordered_json& report);

}  // namespace nibble::cli
