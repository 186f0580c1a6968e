// Runs a program in a separate process, whose crash or hang does not end this process.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace nibble::cli {

struct ChildResult {
  enum class End { kExited, kSignalled, kTimedOut } end{};
  int code{0};           // exit code, or number of the signal that ended the process; 0 after a timeout
  std::string out, err;  // everything written to stdout and stderr
  double seconds{0};
};

// `command`: path and arguments. The child inherits the environment and stdin, and is killed after `limit`.
// Throws std::system_error if the program does not start.
ChildResult run_child(const std::vector<std::string>& command, std::chrono::milliseconds limit);

}  // namespace nibble::cli
