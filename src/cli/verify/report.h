// The report of a run of `nibble verify`: to attach to an issue, and to look up later what is proven on this
// machine (setup/verified.h).
#pragma once

#include <string>

#include "core/json.h"
#include "setup/machine.h"

namespace nibble::cli {

// `probes` and `kernels` are arrays, with one verdict per probe or kernel.
nlohmann::ordered_json report_json(const Machine& machine, nlohmann::ordered_json probes,
                                   nlohmann::ordered_json kernels);

std::string report_text(const nlohmann::ordered_json& report);

// Writes the report to verified_path() for later. Returns empty, or the reason if that failed.
std::string keep_report(const DeviceFacts& device, const nlohmann::ordered_json& report);

}  // namespace nibble::cli
