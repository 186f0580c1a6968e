// Progress of long tasks. A task calls the ReportProgress that its caller passed, so the caller decides how
// progress is shown.
#pragma once

#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

namespace nibble {

// `done` and `total` are bytes or another ProgressUnit. Calls never overlap; `done` rises to `total`.
using ReportProgress = std::function<void(size_t done, size_t total)>;

using ProgressUnit = std::string_view;  // name of the unit ("tokens"); empty for bytes

// Returns a function that draws a bar if `out` is a terminal that understands escape sequences. When `done`
// reaches `total`, it prints one line on any `out`:
// "writing x: 13.8 GB in 9.1 s (1.5 GB/s)".
ReportProgress show_progress(std::string task, ProgressUnit unit = {}, std::FILE* out = stderr);

// Returns the bar, at most `width` columns wide: "writing x [######      ] 48 %  6.6 GB of 13.8 GB".
std::string progress_bar(const std::string& task, size_t done, size_t total, size_t width,
                         ProgressUnit unit = {});

// Returns ", 12 s left". The estimate assumes that the remaining units take as long as the units done in
// `seconds`. Returns an empty string if too little is done for an estimate.
std::string time_left(size_t done, size_t total, double seconds);

// Adds up the counts passed to add() and reports the sum so far. `report` must outlive the Meter.
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
