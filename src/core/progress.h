// Progress of long tasks. The code that works calls a ReportProgress; its caller decides how that is shown.
#pragma once

#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

namespace nibble {

// `done` and `total` are bytes, or what the task counts. Calls do not overlap, `done` never falls, and the last call has done == total.
using ReportProgress = std::function<void(size_t done, size_t total)>;

// The name of what is counted ("tokens"); empty for bytes.
using ProgressUnit = std::string_view;

// Draws a bar where `out` is a terminal that can, and prints one line at the end: "writing x: 13.8 GB in 9.1 s (1.5 GB/s)".
ReportProgress show_progress(std::string task, ProgressUnit unit = {}, std::FILE* out = stderr);

// The bar, at most `width` columns wide: "writing x [######      ] 48 %  6.6 GB of 13.8 GB".
std::string progress_bar(const std::string& task, size_t done, size_t total, size_t width,
                         ProgressUnit unit = {});

// Adds up what is done and reports the sum. `report` has to outlive it.
class Meter {
 public:
  Meter(size_t total, const ReportProgress& report) : total_(total), report_(report) {}
  void add(size_t count) {
    done_ += count;
    if (report_) report_(done_, total_);
  }

 private:
  size_t total_;
  const ReportProgress& report_;
  size_t done_{0};
};

}  // namespace nibble
