// The part that all records of measurements have in common: the date, the program and command, the machine, and the formats of each
// operation.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "core/json.h"
#include "setup/backends.h"
#include "setup/machine.h"

namespace nibble::cli {

struct RunRecord {
  std::string date;  // when the run began: utc_now()
  std::string command_line;
  Machine machine;
  std::vector<KernelChoice> kernels;  // empty where a server ran the model: it does not tell
  int num_warmups{0};                 // before those that were timed, of each test
};

// The record of a run that has just ended, on the backend of this row; `began` is utc_now() of its beginning.
RunRecord record_of_run(const std::string& began, const std::string& command_line, const BackendRow& row,
                        const Backend& backend, int num_warmups);

std::string utc_now();  // "2026-11-22T02:36:02Z"

nlohmann::ordered_json to_json(const Machine& machine);

// The members that each record begins with; records/README.md says what they are. What is not known is null.
nlohmann::ordered_json to_json(const RunRecord& record);

// What a run that makes a table has to say: the table, and a line of a file of records (record_line).
struct RunOutput {
  std::string table, record;
};

// One record as a line for a file of them. Text that is no UTF-8, of a path, is replaced.
std::string record_line(const nlohmann::ordered_json& record);

}  // namespace nibble::cli
