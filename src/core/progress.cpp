#include "core/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/clock.h"

namespace nibble {
namespace {

constexpr double kSecondsBetweenDraws{0.05};
constexpr std::string_view kEraseLine{"\r\033[K"};

std::string in_units(double bytes) {
  const char* unit = bytes >= 1e9 ? "GB" : bytes >= 1e6 ? "MB" : "kB";
  const double size = bytes >= 1e9 ? 1e9 : bytes >= 1e6 ? 1e6 : 1e3;
  return fmt::format("{:.1f} {}", bytes / size, unit);
}

size_t columns(std::FILE* terminal) {
  winsize size{};
  return ::ioctl(fileno(terminal), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

class Display {
 public:
  Display(std::string task, std::FILE* out)
      : task_(std::move(task)), out_(out), is_terminal_(::isatty(fileno(out)) == 1) {}
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;
  ~Display() {  // a task that failed must not leave its bar before the error
    if (is_drawn_) fmt::print(out_, "{}", kEraseLine);
  }

  void update(size_t done, size_t total) {
    const double seconds = watch_.seconds();
    if (done < total) {
      if (is_terminal_ && (!is_drawn_ || seconds - last_draw_ > kSecondsBetweenDraws))
        draw(done, total, seconds);
      return;
    }
    const auto bytes = static_cast<double>(total);
    fmt::print(out_, "{}{}: {} in {:.1f} s ({}/s)\n", is_drawn_ ? kEraseLine : "", task_, in_units(bytes),
               seconds, in_units(bytes / std::max(seconds, 1e-9)));
    is_drawn_ = false;
  }

 private:
  void draw(size_t done, size_t total, double seconds) {
    fmt::print(out_, "{}{}", kEraseLine, progress_bar(task_, done, total, columns(out_) - 1));
    std::fflush(out_);
    is_drawn_ = true;
    last_draw_ = seconds;
  }

  std::string task_;
  std::FILE* out_;
  bool is_terminal_;
  Stopwatch watch_;
  double last_draw_{0};
  bool is_drawn_{false};
};

}  // namespace

std::string progress_bar(const std::string& task, size_t done, size_t total, size_t width) {
  const double share = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
  const std::string figures =
      fmt::format("{:3.0f} %  {} of {}", 100 * share, in_units(static_cast<double>(done)),
                  in_units(static_cast<double>(total)));
  const std::string task_and_figures = fmt::format("{} {}", task, figures);
  constexpr size_t kLeastCells{10}, kMostCells{40}, kFrame{3};  // "[", "]" and a space
  if (task_and_figures.size() + kFrame + kLeastCells > width) return task_and_figures.substr(0, width);
  const size_t num_cells = std::min(width - task_and_figures.size() - kFrame, kMostCells);
  const auto num_full = static_cast<size_t>(share * static_cast<double>(num_cells));
  return fmt::format("{} [{}{}] {}", task, std::string(num_full, '#'), std::string(num_cells - num_full, ' '),
                     figures);
}

ReportProgress show_progress(std::string task, std::FILE* out) {
  return [display = std::make_shared<Display>(std::move(task), out)](size_t done, size_t total) {
    display->update(done, total);
  };
}

}  // namespace nibble
