// How far a long task is. What does the task reports; who started it decides what people see of that.
#pragma once

#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

namespace nibble {

// Calls come one at a time, `done` never falls, and the last call has done == total. Both are bytes, or what the task counts.
using ReportProgress = std::function<void(size_t done, size_t total)>;

// What is counted: its name ("tokens"), or nothing for bytes.
using ProgressUnit = std::string_view;

// A bar where `out` is a terminal that can draw one; in any case one line at the end: "writing x: 13.8 GB in 9.1 s (1.5 GB/s)".
ReportProgress show_progress(std::string task, ProgressUnit unit = {}, std::FILE* out = stderr);

// The bar, of `width` columns at most: "writing x [######      ] 48 %  6.6 of 13.8 GB".
std::string progress_bar(const std::string& task, size_t done, size_t total, size_t width,
                         ProgressUnit unit = {});

// Counts up to the total, for who wants to see it. `report` outlives it.
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
