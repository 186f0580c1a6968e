// The report of `nibble verify`: for issues, and to look up later which kernels passed
// (setup/machine/verified.h).
#pragma once

#include <string>

#include "core/text/json.h"
#include "setup/machine/machine.h"

namespace nibble::cli {

// Returns the report of nibble verify. `probes`, `kernels`: arrays with one verdict per probe and per kernel.
Json report_json(const Machine& machine, Json probes, Json kernels);

std::string report_text(const Json& report);

// Writes the report to verified_path(). Returns why that failed, or an empty text.
std::string keep_report(const DeviceFacts& device, const Json& report);

}  // namespace nibble::cli
