#include "cli/verify/report.h"

#include <fmt/format.h>

#include <system_error>

#include "cli/measure/run_record.h"
#include "cli/version.h"
#include "core/errors/error.h"
#include "core/files/new_file.h"
#include "core/text/json_text.h"
#include "setup/machine/verified.h"

namespace nibble::cli {

namespace fs = std::filesystem;

Json report_json(const Machine& machine, Json probes, Json kernels) {
  return {{"date", utc_now()},
          {"nibble", build_json()},
          {"machine", to_json(machine)},
          {"probes", std::move(probes)},
          {"kernels", std::move(kernels)}};
}

std::string report_text(const Json& report) { return json_text(report, JsonForm::kIndented) + "\n"; }

// Returns the error instead of throwing: an unwritable home must not change the exit code of the checks.
std::string keep_report(const DeviceFacts& device, const Json& report) {
  const fs::path path = verified_path(device);
  if (path.empty()) return "neither XDG_STATE_HOME nor HOME is set";
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  try {
    NewFile file(path);
    file.write(report_text(report));
    file.finish();
  } catch (const InputError& failure) {
    return failure.what();
  } catch (const std::system_error& failure) {
    return fmt::format("{}: {}", path.string(), failure.what());
  }
  return {};
}

}  // namespace nibble::cli
