// The part that all records of measurements share: the date, the program and command, the machine, and the
// kernel of each operation.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "core/json.h"
#include "setup/backends.h"
#include "setup/machine.h"

namespace nibble::cli {

struct RunRecord {
  std::string date;  // utc_now() at the start of the run
  std::string command_line;
  Machine machine;
  std::vector<KernelChoice> kernels;  // empty if a server ran the model, which does not report them
  int num_warmups{0};                 // untimed repetitions of each test
};

// Returns the record of a run that has just ended. `row` is the row of its backend;
// `began` is utc_now() at its start.
RunRecord record_of_run(const std::string& began, const std::string& command_line, const BackendRow& row,
                        const Backend& backend, int num_warmups);

std::string utc_now();  // "2026-11-22T02:36:02Z"

nlohmann::ordered_json to_json(const Machine& machine);

// Returns the members that each record begins with; records/README.md describes
// them. Unknown values are null.
nlohmann::ordered_json to_json(const RunRecord& record);

// Output of a measurement: a table for people, and a line for a file of records (record_line()).
struct RunOutput {
  std::string table, record;
};

// Formats a record as one line of a file of records. Bytes that are not UTF-8,
// such as in paths, are replaced.
std::string record_line(const nlohmann::ordered_json& record);

}  // namespace nibble::cli
