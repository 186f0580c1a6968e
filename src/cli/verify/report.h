// The report of a run of `nibble verify`: for an issue, and for what later asks what is proven on this machine (setup/verified.h).
#pragma once

#include <string>

#include "core/json.h"
#include "setup/machine.h"

namespace nibble::cli {

// `probes`, `kernels`: arrays of what came of each.
nlohmann::ordered_json report_json(const Machine& machine, nlohmann::ordered_json probes,
                                   nlohmann::ordered_json kernels);

std::string report_text(const nlohmann::ordered_json& report);

// Writes it to verified_path() for later. An empty text, or why that could not be.
std::string keep_report(const DeviceFacts& device, const nlohmann::ordered_json& report);

}  // namespace nibble::cli
