// Runs a program in a process of its own, so that whatever becomes of it is an answer.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace nibble::cli {

struct ChildResult {
  enum class End { kExited, kSignalled, kTimedOut } end{};
  int code{0};           // of the exit, or the signal's number
  std::string out, err;  // what it wrote
  double seconds{0};
};

// `command`: a path and its arguments; the environment and standard input are this program's. After `limit` it is killed. Throws
// std::system_error where it can't be started.
ChildResult run_child(const std::vector<std::string>& command, std::chrono::milliseconds limit);

}  // namespace nibble::cli
