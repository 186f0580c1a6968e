// Progress of loading for a log: a line now and then, if stderr is no terminal that shows a bar.
#pragma once

#include <cstddef>
#include <cstdio>

namespace nibble::cli {

class LoadingLines {
 public:
  explicit LoadingLines(std::FILE* out) : out_(out) {}
  // `seconds`: since loading began; `done`, `total`: in any unit. Prints "loading: 40 %, 38 s left" if
  // kInterval seconds have passed since the last line. Prints nothing on a terminal, and nothing at the end
  // of a task, which prints a line of its own. When `done` falls, a new task has begun.
  void report(size_t done, size_t total, double seconds);

  static constexpr double kInterval{10};

 private:
  std::FILE* out_;
  double began_{0}, last_{0};
  size_t last_done_{0};
};

}  // namespace nibble::cli
