#include "core/console/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/console/output.h"
#include "core/console/terminal.h"
#include "core/system/clock.h"

namespace nibble {
namespace {

constexpr double kSecondsBetweenDraws{0.05};
constexpr std::string_view kEraseLine{"\r\033[K"};

std::string in_bytes(double bytes) {
  const char* unit = bytes >= 1e9 ? "GB" : bytes >= 1e6 ? "MB" : "kB";
  const double size = bytes >= 1e9 ? 1e9 : bytes >= 1e6 ? 1e6 : 1e3;
  return fmt::format("{:.1f} {}", bytes / size, unit);
}

class Display {
 public:
  Display(std::string task, ProgressUnit unit, std::FILE* out)
      : task_(std::move(task)), unit_(unit), out_(out), draws_(understands_escapes(out)) {}
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;
  ~Display() {  // After a failure, erases the bar, so that the error message gets an empty line.
    if (is_drawn_) write_to(out_, kEraseLine);
  }

  void update(size_t done, size_t total) {
    const double seconds = watch_.seconds();
    if (done < total) {
      if (draws_ && (!is_drawn_ || seconds - last_draw_ > kSecondsBetweenDraws)) draw(done, total, seconds);
      return;
    }
    const double rate = static_cast<double>(total) / std::max(seconds, 1e-9);
    const std::string figures =
        unit_.empty() ? fmt::format("{} in {:.1f} s ({}/s)", in_bytes(static_cast<double>(total)), seconds,
                                    in_bytes(rate))
                      : fmt::format("{} {} in {:.1f} s ({:.1f} {}/s)", total, unit_, seconds, rate, unit_);
    print_to(out_, "{}{}: {}\n", is_drawn_ ? kEraseLine : "", task_, figures);
    is_drawn_ = false;
  }

 private:
  void draw(size_t done, size_t total, double seconds) {
    const size_t width = num_columns(out_) - 1;
    std::string left = time_left(done, total, seconds);
    if (left.size() >= width) left.clear();
    print_to(out_, "{}{}{}", kEraseLine, progress_bar(task_, done, total, width - left.size(), unit_), left);
    flush(out_);
    is_drawn_ = true;
    last_draw_ = seconds;
  }

  std::string task_;
  std::string unit_;
  std::FILE* out_;
  bool draws_;
  Stopwatch watch_;
  double last_draw_{0};
  bool is_drawn_{false};
};

}  // namespace

std::string progress_bar(const std::string& task, size_t done, size_t total, size_t width,
                         ProgressUnit unit) {
  const double share = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
  const std::string counts = unit.empty() ? fmt::format("{} of {}", in_bytes(static_cast<double>(done)),
                                                        in_bytes(static_cast<double>(total)))
                                          : fmt::format("{} of {} {}", done, total, unit);
  const std::string figures = fmt::format("{:3.0f} %  {}", 100 * share, counts);
  const std::string task_and_figures = fmt::format("{} {}", task, figures);
  constexpr size_t kLeastCells{10}, kMostCells{40}, kFrame{3};  // kFrame: the brackets of the bar and a space
  if (task_and_figures.size() + kFrame + kLeastCells > width) return task_and_figures.substr(0, width);
  const size_t num_cells = std::min(width - task_and_figures.size() - kFrame, kMostCells);
  const auto num_full = static_cast<size_t>(share * static_cast<double>(num_cells));
  return fmt::format("{} [{}{}] {}", task, std::string(num_full, '#'), std::string(num_cells - num_full, ' '),
                     figures);
}

std::string time_left(size_t done, size_t total, double seconds) {
  constexpr double kLeastShare{0.02}, kLeastSeconds{1};
  const double share = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
  if (share < kLeastShare || share >= 1 || seconds < kLeastSeconds) return "";
  const double left = seconds / share - seconds;
  return left < 100 ? fmt::format(", {:.0f} s left", left) : fmt::format(", {:.0f} min left", left / 60);
}

ReportProgress show_progress(std::string task, ProgressUnit unit, std::FILE* out) {
  return [display = std::make_shared<Display>(std::move(task), unit, out)](size_t done, size_t total) {
    display->update(done, total);
  };
}

}  // namespace nibble
