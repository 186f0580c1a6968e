#include "cli/measure/run_record.h"

#include <ctime>

#include "cli/measure/kernels_json.h"
#include "cli/version.h"
#include "core/text/json_text.h"

namespace nibble::cli {
namespace {

Json to_json(const DeviceFacts& device) {
  return {{"name", device.name},
          {"driver", or_null(device.driver)},
          {"num_multiprocessors", or_null(device.num_multiprocessors)},
          {"memory_bytes", or_null(device.memory_bytes)},
          {"cache_bytes", or_null(device.cache_bytes)},
          {"core_mhz", or_null(device.core_mhz)},
          {"highest_core_mhz", or_null(device.highest_core_mhz)},
          {"memory_mhz", or_null(device.memory_mhz)},
          {"highest_memory_mhz", or_null(device.highest_memory_mhz)},
          {"power_watts", or_null(device.power_watts)},
          {"power_limit_watts", or_null(device.power_limit_watts)},
          {"temperature_celsius", or_null(device.temperature_celsius)}};
}

}  // namespace

RunRecord record_of_run(const std::string& began, const std::string& command_line, const BackendRow& row,
                        const Backend& backend, int num_warmups) {
  return {.date = began,
          .command_line = command_line,
          .machine = describe_machine(device_facts(row)),
          .kernels = backend.kernels(),
          .num_warmups = num_warmups};
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm time{};
  gmtime_r(&now, &time);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &time)};
}

Json to_json(const Machine& machine) {
  return {{"cpu", machine.cpu},
          {"num_cores", machine.num_cores},
          {"memory_bytes", or_null(machine.memory_bytes)},
          {"cache_bytes", or_null(machine.cache_bytes)},
          {"cpu_mhz", or_null(machine.cpu_mhz)},
          {"highest_cpu_mhz", or_null(machine.highest_cpu_mhz)},
          {"device", machine.device ? to_json(*machine.device) : Json()}};
}

Json to_json(const RunRecord& record) {
  return {{"date", record.date},
          {"command_line", record.command_line},
          {"nibble", build_json()},
          {"machine", to_json(record.machine)},
          {"kernels", record.kernels.empty() ? Json() : kernels_json(record.kernels)},
          {"num_warmups", record.num_warmups}};
}

std::string record_line(const Json& record) { return json_text(record) + '\n'; }

}  // namespace nibble::cli
