// Runs a program in a process of its own, so that a crash or a hang of it is a result and not the end of this one.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace nibble::cli {

struct ChildResult {
  enum class End { kExited, kSignalled, kTimedOut } end{};
  int code{0};           // the exit code, or the signal's number; 0 after a time-out
  std::string out, err;  // all that it wrote
  double seconds{0};
};

// `command`: a path and its arguments. The child inherits the environment and standard input, and is killed after `limit`. Throws
// std::system_error where it can't be started.
ChildResult run_child(const std::vector<std::string>& command, std::chrono::milliseconds limit);

}  // namespace nibble::cli
