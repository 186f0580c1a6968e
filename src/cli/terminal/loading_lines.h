// Shows the progress of loading as lines of a log, for a stderr that is not a terminal. Terminals show a
// progress bar instead.
#pragma once

#include <cstddef>
#include <cstdio>

namespace nibble::cli {

class LoadingLines {
 public:
  explicit LoadingLines(std::FILE* out) : out_(out) {}
  // `seconds`: since loading began; `done`, `total`: in any unit. Prints "loading: 40 %, 38 s left" if
  // kInterval seconds have passed since the last line. Prints nothing on a terminal, and nothing when a task
  // is complete, because show_progress() (core/console/progress.h) prints a line then. When `done` decreases,
  // a new task has begun, and the remaining time is estimated anew.
  void report(size_t done, size_t total, double seconds);

  static constexpr double kInterval{10};

 private:
  std::FILE* out_;
  double began_{0}, last_{0};
  size_t last_done_{0};
};

}  // namespace nibble::cli
