// The fields common to all measurement records: date, program, command, machine, and kernel per operation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "core/text/json.h"
#include "setup/backend/backends.h"
#include "setup/machine/machine.h"

namespace nibble::cli {

struct RunRecord {
  std::string date;  // start of the run: utc_now()
  std::string command_line;
  Machine machine;
  std::vector<KernelChoice> kernels;  // empty if a server ran the model: servers do not report kernels
  int num_warmups{0};                 // untimed repetitions of each test
};

// Call this at the end of a run. `began`: result of utc_now() at the start of the run.
RunRecord record_of_run(const std::string& began, const std::string& command_line, const BackendRow& row,
                        const Backend& backend, int num_warmups);

// Returns null if the value is absent.
template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

std::string utc_now();  // "2026-11-22T02:36:02Z"

Json to_json(const Machine& machine);

// Returns the members with which each record begins (records/README.md). Unknown values are null.
Json to_json(const RunRecord& record);

struct RunOutput {  // `table`: text to print; `record`: line for the file of --record (record_line())
  std::string table, record;
};

// Returns one line for a file of records. Bytes that are not UTF-8 (in paths) are replaced.
std::string record_line(const Json& record);

}  // namespace nibble::cli
